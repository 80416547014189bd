"""What the weights of a model that hears are calibrated on: sound like speech, and texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exporter.embedding.quality import calibration_text
from exporter.errors import ExportError
from exporter.hearing.log_mel import LogMelSettings, features_of
from exporter.hearing.transcription import Transcription
from exporter.hearing.waveform import WaveformSettings
from exporter.models.whisper import WhisperSpec
from exporter.tokenizer import load_tokenizer
from runtime.errors import RunnerError
from runtime.sound import read_sound

_WINDOWS, _TEXTS = 4, 8
_MOST_WINDOWS = 16  # of recordings
_RECORDINGS = (".wav", ".flac", ".mp3")
_MOST_TOKENS = 256  # of a text
_HARMONICS = 40
_VOWELS = (  # formants in Hz
    *((730, 1090, 2440), (530, 1840, 2480), (390, 1990, 2550), (270, 2290, 3010)),
    *((570, 840, 2410), (440, 1020, 2240), (300, 870, 2240), (490, 1350, 1690)),
)
_BANDWIDTH = 120.0  # of a formant, Hz
_PITCHES = (85.0, 240.0)  # Hz, the lowest and the highest voice


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
    directory: Path,
    spec: WhisperSpec,
    sound: LogMelSettings,
    settings: Transcription,
    recordings: Path | None = None,
) -> Calibration:
    """Makes the sound, and reads the texts with the model's own tokenizer.

    Args:
        recordings: a directory of sound to take in its place.

    Raises:
        TokenizerError: the tokenizer cannot be read.
        ExportError: a recording cannot be read, or there is none.
    """
    texts = _texts(directory, spec.max_target_positions, settings)
    return Calibration(calibration_features(sound, recordings), texts)


def calibration_features(sound: LogMelSettings, recordings: Path | None) -> Tensor:
    """Returns those of windows alone, float32 (windows, ...), as the model reads them.

    Raises:
        ExportError: as read_calibration().
    """
    windows = [features_of(samples, sound) for samples in _sounds(sound, recordings)]
    return torch.from_numpy(np.stack(windows))


def raw_calibration(
    directory: Path,
    most_tokens: int,
    sound: WaveformSettings,
    settings: Transcription,
    recordings: Path | None = None,
) -> Calibration:
    """The same of a model that reads raw sound, in rows of samples.

    Args:
        most_tokens: of a text.
    """
    windows = [torch.from_numpy(samples).float() for samples in _sounds(sound, recordings)]
    rows = torch.stack(windows).unflatten(1, (-1, sound.row))
    return Calibration(rows, _texts(directory, most_tokens, settings))


def _sounds(
    settings: LogMelSettings | WaveformSettings, recordings: Path | None
) -> list[NDArray[np.float64]]:
    if recordings is None:
        return [speech(settings, seed) for seed in range(_WINDOWS)]
    return recorded(recordings, settings)


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


def find_recordings(directory: Path) -> list[Path]:
    """Returns the files of sound in a directory, by their names.

    Raises:
        ExportError: there is none.
    """
    files = sorted(one for one in directory.glob("*") if one.suffix.lower() in _RECORDINGS)
    if not files:
        raise ExportError(
            f"--calibration {directory} is not a directory with recordings: a model that hears "
            "needs WAV, FLAC or MP3 files."
        )
    return files


def recorded(
    directory: Path, settings: LogMelSettings | WaveformSettings
) -> list[NDArray[np.float64]]:
    """Returns the first windows of each recording, or of some of them: (n_samples,) each.

    Raises:
        ExportError: one cannot be read, or there is none.
    """
    files = find_recordings(directory)
    chosen = np.linspace(0, len(files) - 1, min(len(files), _MOST_WINDOWS)).astype(int)
    each = _MOST_WINDOWS // len(chosen)
    seconds = each * settings.n_samples / settings.sampling_rate
    windows = []
    for index in chosen:
        try:
            samples, rate = read_sound(files[index], seconds)
        except RunnerError as error:
            raise ExportError(f"{error}.") from None
        samples = _resampled(samples, rate, settings.sampling_rate)
        for first in range(0, len(samples), settings.n_samples):
            part = samples[first : first + settings.n_samples]
            windows.append(np.pad(part, (0, settings.n_samples - len(part))))
    return windows


def _resampled(samples: NDArray[np.float64], rate: int, target: int) -> NDArray[np.float64]:
    """Leaves out, or adds as zeros, the frequencies that one rate has and the other has not."""
    if rate == target:
        return samples
    count = max(1, len(samples) * target // rate)
    spectrum = np.fft.rfft(samples)[: count // 2 + 1]
    result: NDArray[np.float64] = np.fft.irfft(spectrum, count) * (count / len(samples))
    return result


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
