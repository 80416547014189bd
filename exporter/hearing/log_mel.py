"""How a model reads sound, from its preprocessor_config.json: schemas/log_mel.fbs."""

import math
from dataclasses import dataclass
from pathlib import Path

import flatbuffers
import numpy as np
from numpy.typing import NDArray

from exporter.errors import ExportError
from exporter.hearing.extractor_file import checked_number, read_extractor

LOG_MEL = "thimble.log_mel"  # the name of the blob in a file
_VERSION = 1
_IDENTIFIER = b"THLM"
_EXTRACTOR = "WhisperFeatureExtractor"
_HIGHEST = 8000.0  # Hz, of the bands
_MOST, _MOST_MELS = 1 << 16, 1 << 10
_DEFAULTS = {
    **{"feature_size": 80, "sampling_rate": 16000, "hop_length": 160},
    **{"chunk_length": 30, "n_fft": 400},
}
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
    """

    sampling_rate: int
    n_fft: int
    hop_length: int
    n_mels: int
    n_samples: int

    @property
    def frames(self) -> int:
        """Of a window."""
        return self.n_samples // self.hop_length


def read_log_mel(directory: Path) -> LogMelSettings:
    """
    Raises:
        ExportError: the file is missing or damaged, or asks for other features.
    """
    path, fields = read_extractor(directory, _EXTRACTOR, _MUST_BE)
    sizes = {
        name: checked_number(
            path, name, fields.get(name, usual), _MOST_MELS if name == "feature_size" else _MOST
        )
        for name, usual in _DEFAULTS.items()
    }
    if sizes["n_fft"] >= sizes["chunk_length"] * sizes["sampling_rate"]:
        raise ExportError(f"{path} has n_fft {sizes['n_fft']}, longer than a window.")
    return LogMelSettings(
        sizes["sampling_rate"],
        sizes["n_fft"],
        sizes["hop_length"],
        sizes["feature_size"],
        sizes["chunk_length"] * sizes["sampling_rate"],
    )


def mel_filters(settings: LogMelSettings) -> NDArray[np.float32]:
    """Returns what each feature takes of the energy of each frequency: float32 (n_mels, n_fft / 2 +
    1). The bands are triangles of one area, even on Slaney's scale of mels."""
    frequencies = np.linspace(0, settings.sampling_rate // 2, settings.n_fft // 2 + 1)
    edges = _hertz(np.linspace(0, _mel(_HIGHEST), settings.n_mels + 2))
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
    builder.StartObject(7)
    builder.PrependUint32Slot(0, _VERSION, 0)
    builder.PrependInt32Slot(1, settings.sampling_rate, 0)
    sizes = settings.n_fft, settings.hop_length, settings.n_mels, settings.n_samples
    for slot, size in enumerate(sizes, start=2):
        builder.PrependUint32Slot(slot, size, 0)
    builder.PrependUOffsetTRelativeSlot(6, filters, 0)
    builder.Finish(builder.EndObject(), file_identifier=_IDENTIFIER)
    return bytes(builder.Output())
