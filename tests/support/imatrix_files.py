"""Importance matrices in both of llama.cpp's formats, as llama-imatrix writes them."""

import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from support.gguf_files import write_gguf
from torch import Tensor

Squares = Mapping[str, tuple[Tensor, list[int]]]  # sums (matrices, columns), tokens of each


def write_imatrix(path: Path, squares: Squares, chunks: int = 3) -> Path:
    """Today's format: GGUF."""
    metadata = {
        "general.type": "imatrix",
        "imatrix.datasets": ["text.txt"],
        "imatrix.chunk_count": chunks,
        "imatrix.chunk_size": 512,
    }
    tensors = {}
    for name, (sums, counts) in squares.items():
        one = len(counts) == 1  # whose outer size of 1 ggml does not write
        numbers = np.asarray(counts, np.float32)
        stored = sums.float().numpy()
        tensors[f"{name}.in_sum2"] = (stored[0] if one else stored), Type.F32
        tensors[f"{name}.counts"] = (numbers if one else numbers[:, None]), Type.F32
    return write_gguf(path, metadata, tensors)


def write_old_imatrix(path: Path, squares: Squares, chunks: int = 3) -> Path:
    """The format before: means times a number of calls, ones where nothing was counted."""
    content = struct.pack("<i", len(squares))
    for name, (sums, counts) in squares.items():
        calls = -(-max(counts) // 512)
        seen = torch.tensor(counts)[:, None]
        means = torch.where(seen > 0, sums / seen.clamp(min=1), 1.0) * calls
        content += struct.pack("<i", len(name)) + name.encode()
        content += struct.pack("<2i", calls, means.numel()) + means.float().numpy().tobytes()
    content += struct.pack("<2i", chunks, 8) + b"text.txt"
    path.write_bytes(content)
    return path
