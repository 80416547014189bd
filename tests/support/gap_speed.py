"""How long a stream waits while a request with a heavy schema comes: README's table.

PYTHONPATH=.:tests python -m support.gap_speed MODEL.pte ../shared/data/text/wikitext2_valid.txt
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

from support.mask_speed import Texts, cases

from runtime import Engine, Runner

TOKENS = 20  # of the other request
PIECES = 60  # of the stream before it


def gaps(times: list[float]) -> list[float]:
    return [1e3 * (after - before) for before, after in zip(times, times[1:], strict=False)]


def measure(engine: Engine, schema: dict[str, Any] | None, prompt: str) -> list[float]:
    """Milliseconds between two pieces of a stream: the median before another request comes, and the
    longest while that is compiled and answered. Twice: of the time that the engine's thread has
    had of a processor, with which other work on the machine does not count, and of all time."""
    worked: list[float] = []
    passed: list[float] = []

    def note() -> None:
        worked.append(time.thread_time())
        passed.append(time.perf_counter())

    stream = engine.submit(prompt, temperature=1.0, seed=1, regex="[a-z ]{2000,}", on_event=note)
    while len(passed) < PIECES:
        time.sleep(0.001)
    begun = len(passed)
    engine.submit(prompt, TOKENS, json_schema=schema).text()
    ended = len(passed)
    stream.cancel()
    stream.text()
    return [
        value
        for found in (gaps(worked), gaps(passed))
        for value in (statistics.median(found[: begun - 1]), max(found[begun - 1 : ended]))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path, help="from which the prompts are")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    texts = Texts(options.text.read_text(encoding="utf-8"))
    schemas: dict[str, Any] = {name: schema for name, (schema, _) in cases(texts).items()}
    for name, schema in {"no schema": None, **schemas}.items():
        runs = []
        for run in range(options.runs):  # each in an engine that has compiled nothing
            with Runner(options.model, threads=options.threads) as runner, Engine(runner) as engine:
                titled = schema and {**schema, "title": f"run {run}"}
                runs.append(measure(engine, titled, texts.of(40)))
        median, longest, *passed = (statistics.median(column) for column in zip(*runs, strict=True))
        print(
            f"{name}: median {median:.2f} ms, longest {longest:.2f} ms, {longest / median:.1f} "
            f"times as long; with other work: {passed[0]:.1f} ms, {passed[1]:.1f} ms",
            flush=True,
        )


if __name__ == "__main__":
    main()
