"""CPU time of embedding one text and 53 of mixed lengths, beside OpenVINO and ONNX Runtime.

    python -m support.embedding_speed MODEL.pte TOKENIZER_DIR TEXT OPENVINO.xml ONNX.onnx

The rivals' models take input_ids and attention_mask, and give a row for each text. Rounds are
interleaved, each with one thread; a ratio is the median of those of the rounds.
"""

import importlib
import random
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from transformers import AutoTokenizer

from runtime import Embedder

ROUNDS, WARM = 9, 2
TEXTS, TOKENS, LONGEST = 53, 1904, 83
Batch = dict[str, Any]


def main() -> None:
    model, tokenizer_dir, text, openvino_path, onnx_path = sys.argv[1:]
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    by_length = sentences(Path(text).read_text(encoding="utf-8"), tokenizer)
    one, mixed = [by_length[24]], mix(by_length)
    order = sorted(mixed, key=lambda item: len(tokenizer(item)["input_ids"]))

    def batch(texts: Sequence[str]) -> Batch:
        encoded = tokenizer(list(texts), padding=True, return_tensors="np")
        return {key: encoded[key].astype(np.int64) for key in ("input_ids", "attention_mask")}

    single, padded = [batch(one)], [batch(mixed)]
    eights = [batch(order[first : first + 8]) for first in range(0, len(order), 8)]
    embedder = Embedder(model, threads=1)
    jobs: dict[str, tuple[Callable[[], object], int]] = {
        "ours, one": (lambda: embedder.encode(one), 20),
        "ours, mixed": (lambda: embedder.encode(mixed), 1),
    }
    for name, run in (("openvino", openvino(openvino_path)), ("onnx", onnx(onnx_path))):
        jobs[f"{name}, one"] = (lambda run=run: list(map(run, single)), 20)
        jobs[f"{name}, padded"] = (lambda run=run: list(map(run, padded)), 1)
        jobs[f"{name}, eights"] = (lambda run=run: list(map(run, eights)), 1)
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(ROUNDS + WARM):
        for name, (job, repeats) in jobs.items():
            started = time.process_time()
            for _ in range(repeats):
                job()
            if turn >= WARM:
                times[name].append((time.process_time() - started) / repeats * 1e3)
    for name, found in times.items():
        ours = times["ours, one" if name.endswith("one") else "ours, mixed"]
        ratio = median(mine / theirs for mine, theirs in zip(ours, found, strict=True))
        print(f"{name:17} {median(found):8.2f} ms, ours / it {ratio:.3f}")


def sentences(text: str, tokenizer: Any) -> dict[int, str]:
    """Returns a sentence of each number of tokens."""
    found: dict[int, str] = {}
    for sentence in re.split(r"(?<=[.!?])\s+", " ".join(text.replace("@-@", "-").split()))[:4000]:
        if 3 <= len(sentence.split()) <= 70:
            found.setdefault(len(tokenizer(sentence)["input_ids"]), sentence)
    return found


def mix(by_length: dict[int, str]) -> list[str]:
    """Returns TEXTS of them of about TOKENS tokens, the longest of LONGEST."""
    chance = random.Random(1)
    lengths = sorted(length for length in by_length if length <= LONGEST)
    while True:
        wanted = (chance.lognormvariate(3.4, 0.55) for _ in range(TEXTS - 1))
        picked = [LONGEST, *(min(lengths, key=lambda have: abs(have - want)) for want in wanted)]
        if abs(sum(picked) - TOKENS) < 4:
            chance.shuffle(picked)
            return [by_length[length] for length in picked]


def openvino(path: str) -> Callable[[Batch], object]:
    options = {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY"}
    compiled = importlib.import_module("openvino").Core().compile_model(path, "CPU", options)
    request = compiled.create_infer_request()
    return lambda batch: request.infer(batch, share_inputs=True)


def onnx(path: str) -> Callable[[Batch], object]:
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda batch: session.run(None, batch)


if __name__ == "__main__":
    main()
