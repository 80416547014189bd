"""Measures an OpenVINO language model.

    PYTHON openvino_serve.py MODEL.xml THREADS

It needs the package openvino. The settings are OpenVINO's own for latency, with activations
quantized in groups of 128.
"""

import sys

import numpy as np
import openvino as ov
from serving import MOST_TOKEN, serve


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
        self.length = 0

    def forward(self, count: int) -> None:
        end = self.length + count
        inputs = {
            "input_ids": self.rng.integers(0, MOST_TOKEN, (1, count)),
            "attention_mask": np.ones((1, end), np.int64),
            "position_ids": np.arange(self.length, end, dtype=np.int64)[None],
            "beam_idx": np.zeros(1, np.int32),
        }
        self.request.infer(inputs, share_inputs=True, share_outputs=True)
        self.length = end

    def at(self, depth: int) -> None:
        """There is no way back but from the start."""
        self.request.reset_state()
        self.length = 0
        if depth:
            self.forward(depth)


if __name__ == "__main__":
    threads = int(sys.argv[2])
    serve(Model(sys.argv[1], threads), threads)
