"""What the weights of a model that hears are calibrated on: sound like speech, and texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exporter.embedding.quality import calibration_text
from exporter.hearing.log_mel import LogMelSettings, mel_filters
from exporter.hearing.transcription import Transcription
from exporter.hearing.waveform import WaveformSettings
from exporter.models.whisper import WhisperSpec
from exporter.tokenizer import load_tokenizer

_WINDOWS, _TEXTS = 4, 8
_MOST_TOKENS = 256  # of a text
_HARMONICS = 40
_VOWELS = (  # formants in Hz
    *((730, 1090, 2440), (530, 1840, 2480), (390, 1990, 2550), (270, 2290, 3010)),
    *((570, 840, 2410), (440, 1020, 2240), (300, 870, 2240), (490, 1350, 1690)),
)
_BANDWIDTH = 120.0  # of a formant, Hz
_PITCHES = (85.0, 240.0)  # Hz, the lowest and the highest voice
_RANGE, _LEAST = 8.0, 1e-10  # of logarithms below the largest; the smallest energy


@dataclass(frozen=True)
class Calibration:
    """
    Attributes:
        features: float32 (windows, n_mels, frames), or rows of samples (windows, rows, samples).
        tokens: int64 (texts, tokens), each with what stands around a text.
    """

    features: Tensor
    tokens: Tensor


def read_calibration(
    directory: Path, spec: WhisperSpec, sound: LogMelSettings, settings: Transcription
) -> Calibration:
    """Makes the sound, and reads the texts with the model's own tokenizer.

    Raises:
        TokenizerError: the tokenizer cannot be read.
    """
    windows = [features_of(speech(sound, seed), sound) for seed in range(_WINDOWS)]
    texts = _texts(directory, spec.max_target_positions, settings)
    return Calibration(torch.stack(windows), texts)


def raw_calibration(
    directory: Path, most_tokens: int, sound: WaveformSettings, settings: Transcription
) -> Calibration:
    """The same of a model that reads raw sound, in rows of samples.

    Args:
        most_tokens: of a text.
    """
    windows = [torch.from_numpy(speech(sound, seed)).float() for seed in range(_WINDOWS)]
    rows = torch.stack(windows).unflatten(1, (-1, sound.row))
    return Calibration(rows, _texts(directory, most_tokens, settings))


def _texts(directory: Path, most: int, settings: Transcription) -> Tensor:
    """
    Args:
        most: tokens of a text.
    """
    tokens = load_tokenizer(directory).encode(calibration_text())
    begins = _beginnings(settings)
    room = min(_MOST_TOKENS, most) - len(begins[0]) - 1
    starts = np.linspace(0, max(len(tokens) - room, 0), _TEXTS).astype(int)
    texts = [
        [*begins[index % len(begins)], *tokens[start : start + room], settings.end]
        for index, start in enumerate(starts)
    ]
    return torch.tensor(texts)


def _beginnings(settings: Transcription) -> Sequence[list[int]]:
    """What stands before texts, of some languages."""
    if not settings.has_times:
        return [[settings.start]]
    if not settings.languages:
        return [[settings.start, settings.no_timestamps]]
    return [
        [settings.start, language, settings.transcribe, settings.no_timestamps]
        for language in list(settings.languages.values())[:_TEXTS]
    ]


def speech(settings: LogMelSettings | WaveformSettings, seed: int) -> NDArray[np.float64]:
    """Returns a window of vowels of one voice, with noise and pauses between them: (n_samples,)."""
    random = np.random.default_rng(seed)
    rate, count = settings.sampling_rate, settings.n_samples
    ends = np.cumsum(random.uniform(0.06, 0.3, 1 + count // (rate // 20))) * rate
    sounds = np.searchsorted(ends, np.arange(count), side="right")
    kinds = random.choice(3, len(ends) + 1, p=(0.65, 0.2, 0.15))[sounds]  # voice, noise, pause
    smooth = np.hanning(rate // 25)
    smooth /= smooth.sum()

    def glide(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.convolve(values[sounds], smooth, "same")

    lowest = random.uniform(*_PITCHES)
    pitch = glide(lowest * random.uniform(0.8, 1.3, len(ends) + 1))
    formants = np.array(_VOWELS, float)[random.integers(len(_VOWELS), size=len(ends) + 1)]
    tracks = [glide(formants[:, index]) for index in range(formants.shape[1])]
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    voice = np.zeros(count)
    for harmonic in range(1, _HARMONICS + 1):
        frequency = harmonic * pitch
        heard = frequency < rate / 2
        gain = sum(1 / (1 + ((frequency - track) / _BANDWIDTH) ** 2) for track in tracks)
        voice += heard * gain * np.sin(harmonic * phase) / harmonic**0.5
    noise = np.diff(random.normal(size=count + 1))
    loudness = glide(random.uniform(0.3, 1, len(ends) + 1))
    envelopes = [np.convolve(kinds == kind, smooth, "same") for kind in (0, 1)]
    mixed = envelopes[0] * voice + 0.2 * envelopes[1] * noise
    room = 0.001 * random.normal(size=count)
    result: NDArray[np.float64] = 0.2 * loudness * mixed / np.abs(voice).max() + room
    return result


def features_of(samples: NDArray[np.float64], settings: LogMelSettings) -> Tensor:
    """Returns the features of a window: float32 (n_mels, frames)."""
    size, hop = settings.n_fft, settings.hop_length
    padded = np.pad(samples, size // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, size)[::hop][: settings.frames]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    energies = np.abs(np.fft.rfft(frames * window)) ** 2
    logs = np.log10(np.maximum(mel_filters(settings) @ energies.T, _LEAST))
    return torch.from_numpy((np.maximum(logs, logs.max() - _RANGE) / 4 + 1).astype(np.float32))
