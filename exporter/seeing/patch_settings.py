"""How a model reads pictures near their own sizes, from the fields of LFM2-VL's processor."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.errors import ExportError

_MOST = 256  # of what runners read, but for rows
_MOST_ROWS = 4096
_MOST_PIXELS = 1 << 24


@dataclass(frozen=True)
class PatchSettings:
    """The fields of the schema's table Patches, but for what the model says."""

    size: int
    square: int
    least_rows: int
    most_rows: int
    tolerance: float
    grids: tuple[tuple[int, int], ...]


def read_patch_settings(path: Path, fields: Mapping[str, Any]) -> PatchSettings:
    """
    Args:
        path: of the file, for errors.

    Raises:
        ExportError: a field asks for something else.
    """

    def count(name: str, usual: int, most: int = _MOST) -> int:
        value = fields.get(name, usual)
        if type(value) is not int or not 1 <= value <= most:
            raise ExportError(f"{path} has {name} {value!r}; it must be from 1 to {most}.")
        return value

    least_rows = count("min_image_tokens", 64, _MOST_ROWS)
    most_rows = count("max_image_tokens", 256, _MOST_ROWS)
    if least_rows > most_rows:
        raise ExportError(
            f"{path} has min_image_tokens {least_rows}, but max_image_tokens {most_rows}."
        )
    tolerance = fields.get("max_pixels_tolerance", 2.0)
    if type(tolerance) not in (int, float) or not 0 < tolerance < float("inf"):
        raise ExportError(f"{path} has max_pixels_tolerance {tolerance!r}; it must be above 0.")
    least, most = count("min_tiles", 2), count("max_tiles", 10, 64)
    splits = fields.get("do_image_splitting") is not False and not least == most == 1
    if splits and not 2 <= least <= most:
        raise ExportError(
            f"{path} has min_tiles {least} and max_tiles {most}; they must be 2 or more, in order."
        )
    if splits and fields.get("use_thumbnail") is False:
        raise ExportError(f"{path} has use_thumbnail False, but only True is supported.")
    size, square = count("encoder_patch_size", 16), count("downsample_factor", 2)
    pixels = most_rows * (size * square) ** 2
    if pixels > _MOST_PIXELS:
        raise ExportError(
            f"{path} asks for pictures of {pixels} pixels; at most {_MOST_PIXELS} are read at once."
        )
    grids = _grids(least, most) if splits else ()
    return PatchSettings(size, square, least_rows, most_rows, float(tolerance), grids)


def _grids(least: int, most: int) -> tuple[tuple[int, int], ...]:
    """Columns and rows of tiles, in the order of transformers, by which ties are decided."""
    sides = range(1, most + 1)
    fitting = {
        (columns, rows)
        for count in range(least, most + 1)
        for columns in sides[:count]
        for rows in sides[:count]
        if least <= columns * rows <= most
    }
    return tuple(sorted(fitting, key=lambda grid: grid[0] * grid[1]))
