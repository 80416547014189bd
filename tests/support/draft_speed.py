"""What drafts gain on rewriting, code and free text, beside the model without: README's table.

PYTHONPATH=.:tests python -m support.draft_speed MODEL.pte --draft ngram --draft small.pte
"""

import argparse
import statistics
from dataclasses import dataclass, field
from typing import Any

from runtime import Runner

TOKENS = 120
PARAGRAPH = (
    "The lighthouse stood at the end of the long stone pier. Every evening the keeper climbed the "
    "narrow stairs with a can of oil and a cloth, cleaned the great lens, and lit the lamp. Ships "
    "far out at sea saw its beam and turned away from the rocks that lay beneath the grey water."
)
CODE = '''class Circle:
    """A circle."""

    def __init__(self, name: str, radius: float) -> None:
        self.name = name
        self.radius = radius

    def get_name(self) -> str:
        return self.name

    def set_name(self, name: str) -> None:
        self.name = name

    def get_radius(self) -> float:
        return self.radius

    def set_radius(self, radius: float) -> None:
        self.radius = radius


class Square:
    """A square."""

    def __init__(self, name: str, side: float) -> None:
        self.name'''
STORY = "Once upon a time in a small village,"
TEXTS: dict[str, tuple[str, dict[str, Any]]] = {
    "rewriting": (f"{PARAGRAPH}\n\nThe same with one word changed:\n\n{PARAGRAPH[:20]}", {}),
    "code": (CODE, {}),
    "free text, greedy": (STORY, {}),
    "free text, temperature 1": (STORY, {"temperature": 1.0}),
}


@dataclass
class Found:
    """Of a draft and a text."""

    ratios: list[float] = field(default_factory=list)
    accepted: int = 0
    drafted: int = 0


def speed(runner: Runner, prompt: str, options: dict[str, Any]) -> tuple[str, float]:
    """The text and its tokens a second."""
    runner.truncate(0)
    text = "".join(runner.generate(prompt, TOKENS, **options))
    return text, (runner.stats["generated_tokens"] - 1) / runner.stats["decode_s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--draft", action="append", default=[])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    plain = Runner(options.model, threads=options.threads)
    drafting = {d: Runner(options.model, threads=options.threads, draft=d) for d in options.draft}
    for name, (prompt, sampling) in TEXTS.items():
        found = {draft: Found() for draft in drafting}
        speeds = []
        for seed in range(options.runs):
            expected, without = speed(plain, prompt, {**sampling, "seed": seed})
            speeds.append(without)
            for draft, runner in drafting.items():
                text, rate = speed(runner, prompt, {**sampling, "seed": seed})
                assert text == expected, (name, draft, seed)
                found[draft].ratios.append(rate / without)
                found[draft].accepted += runner.stats["accepted_tokens"]
                found[draft].drafted += runner.stats["drafted_tokens"]
        print(f"{name}: {statistics.median(speeds):.0f} tokens a second without")
        for draft, of in found.items():
            ratio = statistics.median(of.ratios)
            print(
                f"  {draft}: {ratio:.2f} times, accepted {of.accepted} of {of.drafted}", flush=True
            )


if __name__ == "__main__":
    main()
