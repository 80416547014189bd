"""How a model reads sound, from the file of its extractor: schemas/log_mel.fbs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from numpy.typing import NDArray

from exporter.errors import ExportError
from exporter.hearing.extractor_file import checked_number, read_extractor

LOG_MEL = "thimble.log_mel"  # the name of the blob in a file
_VERSION, _PARAKEET_VERSION = 1, 2
_IDENTIFIER = b"THLM"
_EXTRACTOR, _PARAKEET = "WhisperFeatureExtractor", "ParakeetFeatureExtractor"
_HIGHEST = 8000.0  # Hz, of Whisper's bands
_LEAST, _RANGE = 1e-10, 8.0  # the smallest energy; of logarithms below the largest
_ADDED, _DEVIATION = 2.0**-24, 1e-5  # to energies and deviations of Parakeet
_MOST, _MOST_MELS = 1 << 16, 1 << 10
LEAST_FRAMES = 2  # that Parakeet's extractor makes: one has no deviation
_DEFAULTS = {
    **{"feature_size": 80, "sampling_rate": 16000, "hop_length": 160},
    **{"chunk_length": 30, "n_fft": 400},
}
_PARAKEET_DEFAULTS = {**_DEFAULTS, "n_fft": 512, "win_length": 400}
_PREEMPHASIS = 0.97
_MUST_BE = {"dither": 0.0, "do_normalize": False, "padding_value": 0.0}


@dataclass(frozen=True)
class LogMelSettings:
    """
    Attributes:
        sampling_rate: samples per second.
        n_fft: samples of a frame.
        hop_length: samples from one frame to the next.
        n_mels: features of a frame.
        n_samples: of a window.
        win_length: samples of a frame that are under the window, in its middle; 0: all.
        preemphasis: how much of the sample before each is subtracted from it.
        of_parakeet: whether features are those of Parakeet's extractor; else of Whisper's.
    """

    sampling_rate: int
    n_fft: int
    hop_length: int
    n_mels: int
    n_samples: int
    win_length: int = 0
    preemphasis: float = 0.0
    of_parakeet: bool = False

    @property
    def frames(self) -> int:
        """Of a window."""
        return self.n_samples // self.hop_length


def read_log_mel(directory: Path) -> LogMelSettings:
    """Reads Whisper's.

    Raises:
        ExportError: the file is missing or damaged, or asks for other features.
    """
    path, fields = read_extractor(directory, _EXTRACTOR, _MUST_BE)
    sizes = _sizes(path, fields, _DEFAULTS)
    return LogMelSettings(*sizes.values())


def read_parakeet(directory: Path, factor: int) -> LogMelSettings:
    """Reads Parakeet's, whose longest window is one frame, and some eights of `factor` frames.

    Args:
        factor: frames of a state of the model.

    Raises:
        ExportError: as read_log_mel().
    """
    path, fields = read_extractor(directory, _PARAKEET, _MUST_BE)
    sizes = _sizes(path, fields, _PARAKEET_DEFAULTS)
    given = fields.get("preemphasis", _PREEMPHASIS)
    preemphasis = 0.0 if given is None else given
    if not isinstance(preemphasis, int | float) or not 0 <= preemphasis <= 1:
        raise ExportError(f"{path} has preemphasis {given}, but it must be from 0 to 1.")
    if not 2 <= sizes["win_length"] <= sizes["n_fft"]:
        raise ExportError(
            f"{path} has win_length {sizes['win_length']}, but it must be from 2 to n_fft, "
            f"{sizes['n_fft']}."
        )
    # So that each convolution that leaves half of the frames has a middle for the last one, too.
    states = sizes["n_samples"] // sizes["hop_length"] // factor
    sizes["n_samples"] = (states * factor + 1) * sizes["hop_length"]
    settings = LogMelSettings(*sizes.values())
    return replace(settings, preemphasis=float(preemphasis), of_parakeet=True)


def _sizes(path: Path, fields: Mapping[str, Any], usual: Mapping[str, int]) -> dict[str, Any]:
    """Those of settings, in their order."""
    read = {
        name: checked_number(
            path, name, fields.get(name, number), _MOST_MELS if name == "feature_size" else _MOST
        )
        for name, number in usual.items()
    }
    n_samples = read["chunk_length"] * read["sampling_rate"]
    if read["n_fft"] >= n_samples:
        raise ExportError(f"{path} has n_fft {read['n_fft']}, longer than a window.")
    names = ("sampling_rate", "n_fft", "hop_length", "feature_size")
    return {
        **{name: read[name] for name in names},
        "n_samples": n_samples,
        "win_length": read.get("win_length", 0),
    }


def mel_filters(settings: LogMelSettings) -> NDArray[np.float32]:
    """Returns what each feature takes of the energy of each frequency: float32 (n_mels, n_fft / 2 +
    1). The bands are triangles of one area, even on Slaney's scale of mels."""
    frequencies = np.linspace(0, settings.sampling_rate // 2, settings.n_fft // 2 + 1)
    highest = settings.sampling_rate / 2 if settings.of_parakeet else _HIGHEST
    edges = _hertz(np.linspace(0, _mel(highest), settings.n_mels + 2))
    rising = (frequencies - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - frequencies) / (edges[2:] - edges[1:-1])[:, None]
    triangles = np.maximum(0, np.minimum(rising, falling))
    areas = 2 / (edges[2:] - edges[:-2])
    return (triangles * areas[:, None]).astype(np.float32)


# Slaney's scale: 3 mels are 200 Hz up to 1000 Hz, and 27 more are a factor of 6.4 beyond it.
_LINEAR, _STEP = 1000.0, math.log(6.4) / 27


def _mel(hertz: float) -> float:
    linear = 3 * hertz / 200
    return linear if hertz < _LINEAR else 3 * _LINEAR / 200 + math.log(hertz / _LINEAR) / _STEP


def _hertz(mels: NDArray[np.float64]) -> NDArray[np.float64]:
    border = 3 * _LINEAR / 200
    beyond = _LINEAR * np.exp(_STEP * np.maximum(mels - border, 0))
    return np.where(mels < border, 200 * mels / 3, beyond)


def write_log_mel(settings: LogMelSettings) -> bytes:
    """Returns the flatbuffer; its slots are the schema's fields, in order."""
    builder = flatbuffers.Builder(1 << 17)
    filters = builder.CreateNumpyVector(mel_filters(settings).reshape(-1))
    builder.StartObject(10)
    builder.PrependUint32Slot(0, _PARAKEET_VERSION if settings.of_parakeet else _VERSION, 0)
    builder.PrependInt32Slot(1, settings.sampling_rate, 0)
    sizes = settings.n_fft, settings.hop_length, settings.n_mels, settings.n_samples
    for slot, size in enumerate(sizes, start=2):
        builder.PrependUint32Slot(slot, size, 0)
    builder.PrependUOffsetTRelativeSlot(6, filters, 0)
    builder.PrependUint8Slot(7, settings.of_parakeet, 0)
    builder.PrependUint32Slot(8, settings.win_length, 0)
    builder.PrependFloat32Slot(9, settings.preemphasis, 0.0)
    builder.Finish(builder.EndObject(), file_identifier=_IDENTIFIER)
    return bytes(builder.Output())


def features_of(samples: NDArray[np.float64], settings: LogMelSettings) -> NDArray[np.float32]:
    """Returns what C++ makes of a window: float32 (n_mels, frames), of Parakeet (frames, n_mels).

    Args:
        samples: (n_samples,), of Parakeet perhaps fewer.
    """
    size, hop, period = settings.n_fft, settings.hop_length, settings.win_length or settings.n_fft
    mode: Any = "constant" if settings.of_parakeet else "reflect"
    before = np.concatenate(([0.0], samples[:-1]))
    padded = np.pad(samples - settings.preemphasis * before, size // 2, mode=mode)
    frames = np.lib.stride_tricks.sliding_window_view(padded, size)[::hop][: len(samples) // hop]
    steps = period - 1 if settings.of_parakeet else period
    window = np.zeros(size)
    first = (size - period) // 2
    window[first : first + period] = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(period) / steps)
    energies = np.abs(np.fft.rfft(frames * window)) ** 2 @ mel_filters(settings).T
    if settings.of_parakeet:
        logs = np.log(energies + _ADDED)
        features = (logs - logs.mean(0)) / (logs.std(0, ddof=1) + _DEVIATION)
    else:
        logs = np.log10(np.maximum(energies, _LEAST)).T
        features = np.maximum(logs, logs.max() - _RANGE) / 4 + 1
    result: NDArray[np.float32] = features.astype(np.float32)
    return result
