"""How a model reads raw sound, from its preprocessor_config.json: schemas/waveform.fbs."""

from dataclasses import dataclass
from pathlib import Path

import flatbuffers
from torch import Tensor

from exporter.hearing.extractor_file import checked_number, read_extractor

WAVEFORM = "thimble.waveform"  # the name of the blob in a file
_VERSION, _FRAMES_VERSION = 1, 2
_IDENTIFIER = b"THWF"
_EXTRACTOR = "Wav2Vec2FeatureExtractor"
_MUST_BE = {"do_normalize": False, "feature_size": 1, "padding_value": 0.0}
_RATE, _MOST_RATE = 16000, 1 << 16
_SECONDS, _MOST_SECONDS = 30, 600


@dataclass(frozen=True)
class WaveformSettings:
    """
    Attributes:
        sampling_rate: samples per second.
        row: samples of a row, in which the model reads them.
        least, most: rows of a sound; what is shorter is followed by silence, what is longer is cut.
        stream: of a model that reads sound as it arrives; None: it reads all of it at once.
    """

    sampling_rate: int
    row: int
    least: int
    most: int
    stream: "StreamSettings | None" = None

    @property
    def n_samples(self) -> int:
        """Of the longest sound."""
        return self.most * self.row


@dataclass(frozen=True)
class StreamSettings:
    """
    Attributes:
        frame: samples of one; the model reads compress()ed frames, several in a row.
        scale: of them before asinh.
        before, behind: rows around its own that a state depends on; there is a state for each row.
        positions: what is learned of the places of states, float32 (most, width).
    """

    frame: int
    scale: float
    before: int
    behind: int
    positions: Tensor


@dataclass(frozen=True)
class WaveformFields:
    """Of the file.

    Attributes:
        sampling_rate: samples per second.
        seconds: that the model reads at once.
    """

    sampling_rate: int
    seconds: int


def read_waveform(directory: Path) -> WaveformFields:
    """
    Raises:
        ExportError: the file is missing or damaged, or asks for other numbers than samples.
    """
    path, fields = read_extractor(directory, _EXTRACTOR, _MUST_BE)
    rate = checked_number(path, "sampling_rate", fields.get("sampling_rate", _RATE), _MOST_RATE)
    length = fields.get("chunk_length", _SECONDS)
    return WaveformFields(rate, checked_number(path, "chunk_length", length, _MOST_SECONDS))


def write_waveform(settings: WaveformSettings) -> bytes:
    """Returns the flatbuffer; its slots are the schema's fields, in order."""
    stream, positions = settings.stream, 0
    builder = flatbuffers.Builder(64)
    if stream is not None:
        positions = builder.CreateNumpyVector(stream.positions.flatten().numpy())
    builder.StartObject(10)
    builder.PrependUint32Slot(0, _VERSION if stream is None else _FRAMES_VERSION, 0)
    builder.PrependInt32Slot(1, settings.sampling_rate, 0)
    for slot, size in enumerate((settings.row, settings.least, settings.most), start=2):
        builder.PrependUint32Slot(slot, size, 0)
    if stream is not None:
        builder.PrependFloat32Slot(6, stream.scale, 0.0)
        for slot, size in ((5, stream.frame), (7, stream.before), (8, stream.behind)):
            builder.PrependUint32Slot(slot, size, 0)
        builder.PrependUOffsetTRelativeSlot(9, positions, 0)
    builder.Finish(builder.EndObject(), file_identifier=_IDENTIFIER)
    return bytes(builder.Output())
