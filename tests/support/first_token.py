"""How long the first token of a short question takes while a long prompt is read, in one Engine.

PYTHONPATH=. python tests/support/first_token.py MODEL.pte --threads 2 --long 4096
"""

import argparse
import random
import statistics
import time
from pathlib import Path

from runtime import Engine, Runner
from runtime.generation import Generation

QUESTION = 20  # tokens
ANSWER = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--long", type=int, default=4096, help="tokens of the long prompt")
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    draw = random.Random(0)

    def prompt(tokens: int) -> list[int]:  # never a prefix that a cache holds
        return [draw.randrange(97, 123) for _ in range(tokens)]

    def first_token(generation: Generation) -> float:
        generation.text()
        assert generation.stats is not None
        return float(generation.stats["ttft_s"])

    alone, beside, reading = [], [], []
    with Runner(options.model, threads=options.threads) as runner, Engine(runner) as engine:
        for run in range(options.runs + 1):
            by_itself = first_token(engine.submit(prompt(QUESTION), max_new_tokens=ANSWER))
            long = engine.submit(prompt(options.long), max_new_tokens=1)
            time.sleep(0.5 * draw.random() + 0.25)
            waited = first_token(engine.submit(prompt(QUESTION), max_new_tokens=ANSWER))
            assert not long.poll()[1], "the long prompt was read before the answer came"
            read = first_token(long)
            if run > 0:  # the first warms up
                alone.append(by_itself)
                beside.append(waited)
                reading.append(read)
    for what, seconds in (
        (f"a question of {QUESTION} tokens alone", alone),
        (f"the same while a prompt of {options.long} is read", beside),
        ("that prompt", reading),
    ):
        print(
            f"{what}: first token after {statistics.median(seconds) * 1e3:.0f} ms, "
            f"at most {max(seconds) * 1e3:.0f}"
        )


if __name__ == "__main__":
    main()
