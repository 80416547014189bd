"""Measures a GGUF model in ik_llama.cpp.

    PYTHON ik_llama_serve.py MODEL.gguf CONTEXT THREADS

It needs the package ik-llama-cpp-python. Weights are repacked in rows as they are loaded, and
attention is the fused one, as its own documents advise for a processor.
"""

import ctypes
import sys

import numpy as np
from ik_llama_cpp import _ctypes_api as api
from serving import MOST_TOKEN, serve


class Model:
    """A model and a context, which holds `length` positions of one sequence."""

    def __init__(self, path: str, context: int, threads: int) -> None:
        api.llama_backend_init()
        settings = api.llama_model_default_params()
        settings.repack_tensors, settings.use_mmap = True, False
        model = api.llama_model_load_from_file(path.encode(), settings)
        if not model:
            raise SystemExit(f"{path} cannot be loaded")
        settings = api.llama_context_default_params()
        settings.n_ctx = settings.n_batch = context
        settings.n_threads = settings.n_threads_batch = threads
        settings.flash_attn = True
        self.context = api.llama_init_from_model(model, settings)
        if not self.context:
            raise SystemExit(f"{path} gets no context of {context}")
        self.rng = np.random.default_rng(0)
        self.length = 0

    def forward(self, count: int) -> None:
        """The logits of the last token alone, and all finished, as the next call expects."""
        tokens = (ctypes.c_int32 * count)(*self.rng.integers(3, MOST_TOKEN, count))
        batch = api.llama_batch(n_tokens=count, token=tokens, all_pos_0=self.length, all_pos_1=1)
        if code := api.llama_decode(self.context, batch):
            raise RuntimeError(f"llama_decode ended with {code}")
        self.length += count

    def at(self, depth: int) -> None:
        """There is no way back but from the start."""
        api.llama_kv_cache_clear(self.context)
        self.length = 0
        if depth:
            self.forward(depth)


if __name__ == "__main__":
    threads = int(sys.argv[3])
    serve(Model(sys.argv[1], int(sys.argv[2]), threads), threads)
