"""Measures a language model of ONNX Runtime GenAI.

    PYTHON onnxruntime_serve.py MODEL.onnx THREADS

It needs the package onnxruntime-genai, and genai_config.json beside the model.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime_genai as og
from serving import MOST_TOKEN, serve


class Model:
    """A model and its generator, whose cache has the whole context's room."""

    def __init__(self, path: Path, threads: int) -> None:
        config = og.Config(str(path.parent))
        options = {"intra_op_num_threads": threads, "inter_op_num_threads": 1}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": options}}}))
        self.model = og.Model(config)
        self.generator = og.Generator(self.model, og.GeneratorParams(self.model))
        self.rng = np.random.default_rng(0)

    def forward(self, count: int) -> None:
        self.generator.append_tokens(self.rng.integers(3, MOST_TOKEN, count).astype(np.int32))

    def at(self, depth: int) -> None:
        held = self.generator.token_count()
        self.generator.rewind_to(min(depth, held))
        if depth > held:
            self.forward(depth - held)


if __name__ == "__main__":
    threads = int(sys.argv[2])
    serve(Model(Path(sys.argv[1]), threads), threads)
