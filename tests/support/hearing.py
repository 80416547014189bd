"""Sounds, and what the runner makes of them."""

import json
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

RATE = 16000


def spoken(seconds: float, pitch: float) -> Any:
    """Sound of many frequencies, float32."""
    time = np.arange(int(RATE * seconds)) / RATE
    noise = np.random.default_rng(0).uniform(-0.1, 0.1, len(time))
    return (0.3 * np.sin(pitch * time + 40 * np.sin(7 * time)) + noise).astype("<f4")


def write_wav(path: Path, samples: Any) -> Path:
    data = samples.tobytes()
    form = struct.pack("<HHIIHH", 3, 1, RATE, 4 * RATE, 4, 32)
    chunks = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(data))
    path.write_bytes(b"RIFF" + struct.pack("<I", len(chunks) + len(data)) + chunks + data)
    return path


def run(build: Path, pte: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [build / "runner", pte, *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def transcribe(build: Path, pte: Path, *arguments: str | Path) -> Any:
    result = run(build, pte, "--format", "json", "--quiet", "--no-fallback", *arguments)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def features_of(samples: Any, seconds: int) -> torch.Tensor:
    extractor = transformers.WhisperFeatureExtractor(chunk_length=seconds)
    features = extractor(samples, sampling_rate=RATE, return_tensors="pt").input_features
    assert isinstance(features, torch.Tensor)
    return features


def text_tokens(generated: torch.Tensor, special: range) -> list[int]:
    """What stands between the tokens around a text."""
    return [token for token in generated[0].tolist() if token not in special]


def segments_of(model: Any, samples: Any, window: int, **options: Any) -> list[dict[str, Any]]:
    """transformers' segments of a sound, with times; long ones by windows of `window` seconds."""
    extractor = transformers.WhisperFeatureExtractor(chunk_length=window)
    whole = {"truncation": False, "padding": "longest"} if len(samples) > window * RATE else {}
    features = extractor(samples, sampling_rate=RATE, return_tensors="pt", **whole).input_features
    generated = model.generate(
        features, return_timestamps=True, return_segments=True, do_sample=False, **options
    )
    return [
        {
            "tokens": segment["tokens"].tolist(),
            "start": round(float(segment["start"]), 2),
            "end": round(float(segment["end"]), 2),
        }
        for segment in generated["segments"][0]
    ]
