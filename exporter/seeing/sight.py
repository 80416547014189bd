"""The part of a checkpoint that sees: opened, before its weights are read."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from exporter.checkpoint.checkpoint import Checkpoint
from exporter.checkpoint.hugging_face import NamedTensors, open_files, read_spec, stored_names
from exporter.errors import ExportError
from exporter.listener import Listener
from exporter.models import gemma_sight, siglip
from exporter.module.quantize_layers import linears_of
from exporter.seeing.calibration import PICTURES, CalibrationTiles, read_tiles
from exporter.seeing.picture_blob import write_picture
from exporter.seeing.picture_settings import PictureSettings, read_picture_settings
from exporter.seeing.towers import Tower, TowerSpec, example_of, fitted, kind_of, make_tower
from quant.machine.memory_size import show_size
from quant.measure.size import Storage
from quant.scheme import Scheme

_BELOW = "model."  # where most checkpoints keep the parts of a model
VISION_ENCODER = "vision_encoder"  # the method, by the name that stock ExecuTorch's runner calls


@dataclass(frozen=True)
class Sight:
    """What is known of it before its weights are read.

    Attributes:
        scheme: how its weights are stored, of window_scheme().
        tiles: to calibrate and measure on; None in float, or where none can be read.
    """

    checkpoint: Checkpoint[TowerSpec]
    settings: PictureSettings
    scheme: Scheme
    tiles: CalibrationTiles | None

    @property
    def spec(self) -> TowerSpec:
        return self.checkpoint.config

    def bytes(self, storage: Storage) -> int:
        """Of its weights in a file."""
        with torch.device("meta"):
            tower = make_tower(self.spec)
        size = storage.float_bytes * sum(one.numel() for one in tower.parameters())
        type = self.scheme.type
        if type is not None:
            for linear in linears_of(tower).values():
                rows, columns = linear.weight.shape
                integers = storage.weight_bytes(rows, type.padded(columns), type)
                size += integers - storage.float_bytes * rows * columns
        return size

    def load(self) -> Tower:
        """Returns the module with its weights, float32."""
        with torch.device("meta"):
            tower = make_tower(self.spec)
        self.checkpoint.load_into(tower, "")
        tower.fit(self.settings.side)
        return tower.eval().requires_grad_(False)

    def example(self) -> Tensor:
        """Returns numbers of chance, as the module takes them."""
        return example_of(self.spec, self.settings)


def open_sight(
    directory: Path, scheme: Scheme, images: Path | None, context: int, listener: Listener
) -> Sight:
    """Maps the weights of the part that sees, and reads how it is given pictures.

    Args:
        scheme: of window_scheme().
        images: a directory of pictures to calibrate and measure on; None: those of the package.
        context: positions of a text; a picture of any size takes at most half of them.

    Raises:
        ExportError: a file is missing, or damaged, or asks for what is not supported.
    """
    kind = kind_of(directory)
    spec = read_spec(directory, kind.family)
    settings = read_picture_settings(directory, max(context // 2, 1))
    _require_fitting(directory, spec, settings)
    spec = fitted(spec, settings)
    files = open_files(directory)
    starts = tuple(f"{part}." for part in kind.parts)
    below = {name.removeprefix(_BELOW): name for name in stored_names(files)}
    names = {_BELOW + name: path for name, path in below.items() if name.startswith(starts)}
    weights = NamedTensors(files, names)
    family: Any = replace(kind.family, model_type=spec.model_type)
    checkpoint = Checkpoint(spec, directory, directory.resolve().name, weights, family)
    with torch.device("meta"):
        checkpoint.check(make_tower(spec))
    blob = write_picture(settings, spec)
    return Sight(checkpoint, settings, scheme, _tiles(blob, scheme, images, listener))


def _tiles(
    settings: bytes, scheme: Scheme, images: Path | None, listener: Listener
) -> CalibrationTiles | None:
    """
    Args:
        settings: as write_picture() returns them.
    """
    if scheme.name == "none":
        if images is not None:
            raise ExportError(
                f"--calibration-images {images} has no effect on floats; leave it out, or add "
                "--vision-quant rtn8."
            )
        return None
    try:
        return read_tiles(images or PICTURES, settings, scheme.needs_calibration)
    except ExportError as error:
        if images is not None or scheme.needs_calibration:
            raise
        listener.note(f"What sees is quantized, but not measured: {error}")
        return None


def picture_note(sight: Sight, context: int) -> str:
    """What a picture takes, as a sentence."""
    settings = sight.settings
    side, rows = settings.side, sight.spec.rows(settings.side)
    numbers = sight.spec.row_size
    if settings.patches is None:
        along = -(-settings.longest_edge // side)
        tiles, whole = along * along if settings.tiles and along > 1 else 0, rows
    else:
        tiles = max((columns * down for columns, down in settings.patches.grids), default=0)
        whole = settings.patches.most_rows
    positions, pixels = tiles * rows + whole, tiles * side**2 + whole * sight.spec.square**2
    memory = show_size(3 * pixels + 4 * positions * numbers)
    return (
        f"A picture takes up to {positions} of the context's {context} positions, and up to "
        f"{memory} of memory while a text has it."
    )


def _require_fitting(directory: Path, spec: TowerSpec, settings: PictureSettings) -> None:
    if settings.side % spec.square:
        raise ExportError(
            f"The processor of {directory} makes tiles of {settings.side} pixels, but the model "
            f"reads squares of {spec.square}; take both from the same model."
        )
    if isinstance(spec, gemma_sight.TowerSpec) and settings.side != spec.image_size:
        raise ExportError(
            f"The processor of {directory} makes pictures of {settings.side} pixels, but the model "
            f"reads {spec.image_size}; take both from the same model."
        )
    patches = settings.patches
    own = None if patches is None else (patches.size, patches.square)
    reads = None if isinstance(spec, siglip.TowerSpec) else (spec.patch_size, spec.scale_factor)
    if own != reads:
        raise ExportError(
            f"The processor of {directory} makes other patches than the model reads; take both "
            "from the same model."
        )
    rows = spec.rows(settings.side)
    if settings.rows is not None and settings.rows != rows:
        raise ExportError(
            f"The processor of {directory} makes {settings.rows} places of a tile, but the model "
            f"{rows} rows; take both from the same model."
        )
