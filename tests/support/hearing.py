"""Sounds, and what the runner makes of them."""

import json
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from transformers.models.whisper import tokenization_whisper

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
    """transformers' segments of a sound, with times, and those of tokens if they are asked for.

    Args:
        window: seconds of one; long sounds have several.
    """
    extractor = transformers.WhisperFeatureExtractor(chunk_length=window)
    whole = {"truncation": False, "padding": "longest"} if len(samples) > window * RATE else {}
    given = extractor(
        samples, sampling_rate=RATE, return_tensors="pt", return_attention_mask=True, **whole
    )
    generated = model.generate(
        given.input_features,
        attention_mask=given.attention_mask,
        **{"return_timestamps": True, "return_segments": True, "do_sample": False, **options},
    )
    return [
        {
            "tokens": segment["tokens"].tolist(),
            "start": round(float(segment["start"]), 2),
            "end": round(float(segment["end"]), 2),
            "token_times": segment.get("token_timestamps", torch.zeros(0)).tolist(),
        }
        for segment in generated["segments"][0]
    ]


@dataclass
class _Decoder:
    """What transformers' splitting into words reads of a tokenizer."""

    tokenizer: tokenizers.Tokenizer
    eos_token_id: int

    def decode(self, tokens: list[int], **_: Any) -> str:
        return str(self.tokenizer.decode(tokens))


def words_of(
    segments: list[dict[str, Any]], file: Path, end: int, language: str
) -> list[tuple[float, float, str]]:
    """transformers' words of its segments: begin, end and text.

    Args:
        file: of the tokenizer.
        end: its first token that is not text.
        language: in English.
    """
    decoder = _Decoder(tokenizers.Tokenizer.from_file(str(file)), end)
    words = []
    for segment in segments:
        times = segment["token_times"]
        text = [at for at, token in enumerate(segment["tokens"]) if token < end]
        tokens = [segment["tokens"][at] for at in text]
        split = tokenization_whisper._combine_tokens_into_words(decoder, tokens, language)
        for word, _, places in zip(*split, strict=True):
            first, last = text[places[0]], text[places[-1]]
            words.append((times[first - 1], times[last], word))
    return words
