"""Measures a peer's language model that stays loaded, by the commands of build/bench.

A line of JSON when it is ready, then one for each line of standard input: prefill N, decode D N,
batch D R N, fill D, memory.
"""

import json
import sys
import time
from pathlib import Path
from typing import Protocol

MOST_TOKEN = 32  # any tokens do: no smaller vocabulary is measured


class Model(Protocol):
    """A loaded model with one sequence."""

    def at(self, depth: int) -> None:
        """Makes it hold exactly `depth` positions, whatever it held."""

    def forward(self, count: int) -> None:
        """One call of `count` tokens, any at all, at the end of what it holds; returns when the
        logits of the last are there."""


def serve(model: Model, threads: int) -> None:
    """Answers until standard input ends."""
    _say(json.dumps({"threads": threads}))
    for line in sys.stdin:
        name, *numbers = line.split()
        try:
            reply = json.dumps(_answer(model, name, [int(number) for number in numbers]))
        except Exception as error:
            reply = "error: " + " ".join(str(error).split())
        _say(reply)


def _answer(model: Model, name: str, numbers: list[int]) -> dict[str, float]:
    match name, numbers:
        case "prefill", [count]:
            return {"seconds": _seconds(model, 0, count)}
        case "fill", [_]:
            return {"seconds": 0.0}  # decode fills for itself
        case "decode", [depth, count]:
            first = _seconds(model, depth, 1)
            return {"seconds": first + sum(_timed(model, 1) for _ in range(count - 1))}
        case "batch", [depth, rows, count]:
            return {"seconds": sum(_seconds(model, depth, rows) for _ in range(count))}
        case "memory", []:
            return {"peak_bytes": _peak_bytes()}
    raise ValueError(f"'{name}' with {len(numbers)} numbers is not a command")


def _seconds(model: Model, depth: int, count: int) -> float:
    model.at(depth)
    return _timed(model, count)


def _timed(model: Model, count: int) -> float:
    start = time.perf_counter()
    model.forward(count)
    return time.perf_counter() - start


def _peak_bytes() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
