"""How a model reads raw sound, from its preprocessor_config.json: schemas/waveform.fbs."""

from dataclasses import dataclass
from pathlib import Path

import flatbuffers

from exporter.errors import ExportError
from exporter.json_object import read_object

WAVEFORM = "thimble.waveform"  # the name of the blob in a file
_VERSION = 1
_IDENTIFIER = b"THWF"
_FILE = "preprocessor_config.json"
_EXTRACTOR = "Wav2Vec2FeatureExtractor"
_MUST_BE = {"do_normalize": False, "feature_size": 1, "padding_value": 0.0}
_RATE, _SECONDS, _MOST_SECONDS = 16000, 30, 600


@dataclass(frozen=True)
class WaveformSettings:
    """
    Attributes:
        sampling_rate: samples per second.
        row: samples of a row, in which the model reads them.
        least, most: rows of a sound; what is shorter is followed by silence, what is longer is cut.
    """

    sampling_rate: int
    row: int
    least: int
    most: int

    @property
    def n_samples(self) -> int:
        """Of the longest sound."""
        return self.most * self.row


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
    path = directory / _FILE
    if not path.is_file():
        raise ExportError(f"{directory} has no {_FILE}, which says how the model reads sound.")
    fields = read_object(path)
    extractor = fields.get("feature_extractor_type", _EXTRACTOR)
    if extractor != _EXTRACTOR:
        raise ExportError(
            f"{path} has feature_extractor_type {extractor}, but must have {_EXTRACTOR}."
        )
    for name, value in _MUST_BE.items():
        if fields.get(name, value) not in (value, None):
            raise ExportError(f"{path} has {name} {fields[name]}, but only {value} is supported.")
    numbers = []
    for name, usual, most in (
        ("sampling_rate", _RATE, 1 << 16),
        ("chunk_length", _SECONDS, _MOST_SECONDS),
    ):
        value = fields.get(name, usual)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise ExportError(
                f"{path} has {name} {value}, but it must be a number from 1 to {most}."
            )
        numbers.append(value)
    return WaveformFields(*numbers)


def write_waveform(settings: WaveformSettings) -> bytes:
    """Returns the flatbuffer; its slots are the schema's fields, in order."""
    builder = flatbuffers.Builder(64)
    builder.StartObject(5)
    builder.PrependUint32Slot(0, _VERSION, 0)
    builder.PrependInt32Slot(1, settings.sampling_rate, 0)
    for slot, size in enumerate((settings.row, settings.least, settings.most), start=2):
        builder.PrependUint32Slot(slot, size, 0)
    builder.Finish(builder.EndObject(), file_identifier=_IDENTIFIER)
    return bytes(builder.Output())
