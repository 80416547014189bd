"""The part of a checkpoint that sees: opened, before its weights are read."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from exporter.catalogue.weight_files import CONFIG
from exporter.checkpoint.checkpoint import Checkpoint
from exporter.checkpoint.hugging_face import NamedTensors, open_files, stored_names
from exporter.errors import ExportError
from exporter.json_object import read_object
from exporter.models.siglip import FAMILY, PARTS, Tower, TowerSpec
from exporter.module.source import Inputs, Made
from exporter.seeing.picture_settings import PictureSettings, read_picture_settings
from quant.weight_type import FLOAT_BITS


@dataclass(frozen=True)
class Sight:
    """What is known of it before its weights are read."""

    checkpoint: Checkpoint[TowerSpec]
    settings: PictureSettings

    @property
    def spec(self) -> TowerSpec:
        return self.checkpoint.config

    @property
    def bytes(self) -> int:
        """Of its weights in a file."""
        with torch.device("meta"):
            tower = Tower(self.spec)
        return FLOAT_BITS // 8 * sum(parameter.numel() for parameter in tower.parameters())

    def make(self) -> Made:
        """Reads the weights; returns the method with an example of its input."""
        with torch.device("meta"):
            tower = Tower(self.spec)
        self.checkpoint.load_into(tower, "")
        tower.fit(self.spec, self.settings.side)
        tower.eval().requires_grad_(False)
        generator = torch.Generator().manual_seed(0)
        pixels = 2 * torch.rand(1, 3, self.settings.side, self.settings.side, generator=generator)
        return Made(tower, Inputs((pixels - 1,)), None, ())


def open_sight(directory: Path) -> Sight:
    """Maps the weights of the part that sees, and reads how it is given pictures.

    Raises:
        ExportError: a file is missing, or damaged, or asks for what is not supported.
    """
    path = directory / CONFIG
    try:
        spec = FAMILY.spec(read_object(path))
    except ExportError as error:
        raise ExportError(f"{path}: {error}") from None
    settings = read_picture_settings(directory)
    _require_fitting(directory, spec, settings)
    files = open_files(directory)
    starts = tuple(f"model.{part}." for part in PARTS)
    names = {name: name for name in stored_names(files) if name.startswith(starts)}
    weights = NamedTensors(files, names)
    family: Any = replace(FAMILY, model_type=spec.model_type)
    checkpoint = Checkpoint(spec, directory, directory.resolve().name, weights, family)
    with torch.device("meta"):
        checkpoint.check(Tower(spec))
    return Sight(checkpoint, settings)


def picture_note(sight: Sight, width: int, context: int) -> str:
    """What a picture takes, as a sentence.

    Args:
        width: of the language model's rows.
    """
    settings = sight.settings
    side, rows = settings.side, sight.spec.rows(settings.side)
    along = -(-settings.longest_edge // side)
    tiles = along * along + 1 if settings.tiles and along > 1 else 1
    size = tiles * (3 * side * side + 4 * rows * width)
    return (
        f"A picture takes up to {tiles * rows} of the context's {context} positions, and up to "
        f"{size / 1e6:.1f} MB of memory while a text has it."
    )


def _require_fitting(directory: Path, spec: TowerSpec, settings: PictureSettings) -> None:
    square = spec.patch_size * spec.scale_factor
    if settings.side % square:
        raise ExportError(
            f"The processor of {directory} makes tiles of {settings.side} pixels, but the model "
            f"reads squares of {square}; take both from the same model."
        )
    rows = spec.rows(settings.side)
    if settings.rows is not None and settings.rows != rows:
        raise ExportError(
            f"The processor of {directory} has image_seq_len {settings.rows}, but the model makes "
            f"{rows} rows of a tile; take both from the same model."
        )
