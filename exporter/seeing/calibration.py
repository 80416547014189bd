"""The pictures that what sees is calibrated and measured on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from exporter.errors import ExportError
from runtime.errors import RunnerError
from runtime.pictures import picture_tiles

PICTURES = Path(__file__).parent / "pictures"  # of the package
_SUFFIXES = (".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".webp")
_EVERY = 4  # of so many pictures one is held out
_CALIBRATED, _MEASURED = 12, 4  # tiles, at most
_MOST_NUMBERS = 1 << 24  # of those that are measured on, but for the first


@dataclass(frozen=True)
class CalibrationTiles:
    """
    Attributes:
        calibrated, measured: float32, each an input of what sees, of different pictures; what is
            calibrated on is empty where nothing is calibrated.
    """

    calibrated: Sequence[Tensor]
    measured: Sequence[Tensor]


def find_pictures(directory: Path) -> list[Path]:
    """Returns a directory's files of pictures, by name.

    Raises:
        ExportError: it is none, or has too few.
    """
    if not directory.is_dir():
        raise ExportError(
            f"--calibration-images {directory} is not a directory; name one that has pictures."
        )
    found = [path for path in directory.iterdir() if path.suffix.lower() in _SUFFIXES]
    paths = sorted(path for path in found if path.is_file())
    if len(paths) < 2:
        raise ExportError(
            f"--calibration-images {directory} has {len(paths) or 'no'} "
            f"picture{'' if len(paths) == 1 else 's'}, but 2 at least are needed, one to calibrate "
            f"on and one to measure on; their names end in {', '.join(_SUFFIXES)}."
        )
    return paths


def read_tiles(directory: Path, settings: bytes, calibrates: bool) -> CalibrationTiles:
    """Reads some of a directory's pictures as the model is given them.

    Args:
        settings: as write_picture() returns them.
        calibrates: whether more than what is measured on is needed.

    Raises:
        ExportError: there are too few, or one cannot be read.
    """
    paths = find_pictures(directory)
    held_out = paths[_EVERY - 1 :: _EVERY] or paths[-1:]
    rest = [path for path in paths if calibrates and path not in held_out]

    def tiles_of(path: Path) -> list[Tensor]:
        try:
            return [torch.from_numpy(tile) for tile in picture_tiles(settings, path)]
        except RunnerError as error:
            raise ExportError(
                f"--calibration-images {directory}: {path.name}: {str(error).rstrip('.')}."
            ) from None

    measured = _some(held_out, _MEASURED, tiles_of)
    few = max(1, _MOST_NUMBERS // max(tile.numel() for tile in measured))
    return CalibrationTiles(_some(rest, _CALIBRATED, tiles_of), measured[:few])


def _some(
    paths: Sequence[Path], most: int, tiles_of: Callable[[Path], list[Tensor]]
) -> list[Tensor]:
    """Returns tiles of pictures all over the directory: of each the whole and parts."""
    some: list[Tensor] = []
    used = paths[:: max(1, -(-len(paths) // (most // 2)))]
    each = most // max(1, len(used))
    for path in used:
        tiles = tiles_of(path)
        count = min(each, len(tiles))
        # The last one is the whole.
        some += [tiles[len(tiles) - 1 - index * len(tiles) // count] for index in range(count)]
    return some
