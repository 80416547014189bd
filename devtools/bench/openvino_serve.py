"""Measures an OpenVINO language model that stays loaded, by the commands of build/bench.

    PYTHON openvino_serve.py MODEL.xml THREADS

A script of its own: it runs in whatever Python has the package openvino, and imports nothing of
ours. A line of JSON when it is ready, then one for each line of standard input: prefill N, decode
D N, batch D R N, fill D, memory. The settings are OpenVINO's own for latency, with activations
quantized in groups of 128.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openvino as ov


class Model:
    """A compiled model, its states, and how many positions they hold."""

    def __init__(self, path: str, threads: int) -> None:
        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": 128,
        }
        self.compiled = ov.Core().compile_model(path, "CPU", settings)
        self.request = self.compiled.create_infer_request()
        self.rng = np.random.default_rng(0)
        self.most = 32  # any tokens do: no smaller vocabulary is measured
        self.length = 0

    def reset(self) -> None:
        self.request.reset_state()
        self.length = 0

    def forward(self, count: int) -> None:
        """One call of `count` tokens at the end of what the states hold."""
        end = self.length + count
        inputs = {
            "input_ids": self.rng.integers(0, self.most, (1, count)),
            "attention_mask": np.ones((1, end), np.int64),
            "position_ids": np.arange(self.length, end, dtype=np.int64)[None],
            "beam_idx": np.zeros(1, np.int32),
        }
        self.request.infer(inputs, share_inputs=True, share_outputs=True)
        self.length = end

    def at(self, depth: int) -> None:
        """Makes the states hold `depth` positions: there is no way back but from the start."""
        self.reset()
        if depth:
            self.forward(depth)


def timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def answer(model: Model, name: str, numbers: list[int]) -> dict[str, float]:
    match name, numbers:
        case "prefill", [count]:
            model.reset()
            return {"seconds": timed(lambda: model.forward(count))}
        case "fill", [_]:
            return {"seconds": 0.0}  # decode fills for itself
        case "decode", [depth, count]:
            model.at(depth)
            return {"seconds": sum(timed(lambda: model.forward(1)) for _ in range(count))}
        case "batch", [depth, rows, count]:
            seconds = 0.0
            for _ in range(count):
                model.at(depth)
                seconds += timed(lambda: model.forward(rows))
            return {"seconds": seconds}
        case "memory", []:
            return {"peak_bytes": peak_bytes()}
    raise ValueError(f"'{name}' with {len(numbers)} numbers is not a command")


def peak_bytes() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    model = Model(sys.argv[1], int(sys.argv[2]))
    say(json.dumps({"threads": int(sys.argv[2])}))
    for line in sys.stdin:
        name, *numbers = line.split()
        try:
            reply = json.dumps(answer(model, name, [int(number) for number in numbers]))
        except (ValueError, RuntimeError) as error:
            reply = "error: " + " ".join(str(error).split())
        say(reply)


if __name__ == "__main__":
    main()
