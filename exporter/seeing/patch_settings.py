"""How a model reads pictures of any size, from the fields of the processors of LFM2-VL, Qwen and
Gemma 4."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.errors import ExportError

_MOST = 256  # of what runners read, but for rows
_MOST_ROWS = 4096
_MOST_POOLED = 560  # rows of a picture that becomes as large as it may
_MOST_PIXELS = 1 << 24
_MOST_RATIO = 200  # of a picture's sides: beyond it transformers fails
_MOST_BOUND = 2**40  # of pixels, where rows bound them too


@dataclass(frozen=True)
class PatchSettings:
    """The fields of the schema's table Patches, but for what the model says.

    Attributes:
        least_pixels, most_pixels: 0: those of rows.
    """

    size: int
    square: int
    least_rows: int
    most_rows: int
    tolerance: float
    grids: tuple[tuple[int, int], ...] = ()
    least_pixels: float = 0
    most_pixels: float = 0


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


def read_pixel_bounds(path: Path, fields: Mapping[str, Any], most_rows: int) -> PatchSettings:
    """Those of Qwen's processor, whose bounds are counts of pixels.

    Args:
        path: of the file, for errors.
        most_rows: that a picture may become; the processor's own bound may allow fewer.

    Raises:
        ExportError: a field asks for something else.
    """
    size = fields.get("size")
    of_size = size if isinstance(size, dict) else {}
    usual = {
        "patch_size": 14,
        "merge_size": 2,
        "min_pixels": of_size.get("shortest_edge", 56**2),
        "max_pixels": of_size.get("longest_edge", 28**2 * 1280),
    }
    given = {name: fields[name] for name in usual if fields.get(name) is not None}
    counts = {**usual, **given}
    for name, value in counts.items():
        most = _MOST_BOUND if name.endswith("pixels") else _MOST
        if type(value) is not int or not 1 <= value <= most:
            raise ExportError(f"{path} has {name} {value!r}; it must be a number, 1 or more.")
    if fields.get("temporal_patch_size", 2) != 2:
        raise ExportError(
            f"{path} has temporal_patch_size {fields['temporal_patch_size']}, but only 2 is "
            "supported."
        )
    patch, square = counts["patch_size"], counts["merge_size"]
    area = (patch * square) ** 2
    most = min(counts["max_pixels"], min(most_rows, _MOST_ROWS) * area)
    least = min(counts["min_pixels"], most)
    if most < area:
        raise ExportError(
            f"{path} has max_pixels {counts['max_pixels']}, but a row of the model is made of "
            f"{area} pixels."
        )
    rows = min(_rows_of_long(least / area, most / area), most_rows, _MOST_ROWS)
    return PatchSettings(patch, square, least // area, rows, 2.0, (), float(least), float(most))


def _rows_of_long(least: float, most: float) -> int:
    """Returns the most rows that a picture may become in transformers: a long one gets more than
    the bounds say, since its shorter side gets one row at least.

    Args:
        least, most: the bounds, in rows.
    """
    across = range(1, math.ceil(math.sqrt(least)) + 1)  # of a small picture, which is enlarged
    along = (min(least / max(n - 1, 1e-9), math.sqrt(_MOST_RATIO * least)) for n in across)
    enlarged = max(n * math.ceil(length) for n, length in zip(across, along, strict=True))
    return max(int(most), int(math.sqrt(_MOST_RATIO * most)), enlarged)


def read_pooled_patches(path: Path, fields: Mapping[str, Any], most_rows: int) -> PatchSettings:
    """Those of Gemma 4's processor, whose pictures become as large as a count of rows allows.

    Args:
        path: of the file, for errors.
        most_rows: that a picture may become; the processor's own bound may allow fewer.

    Raises:
        ExportError: a field asks for something else.
    """
    counts = {"patch_size": 16, "pooling_kernel_size": 3, "max_soft_tokens": 280}
    counts |= {name: fields[name] for name in counts if fields.get(name) is not None}
    for name, value in counts.items():
        most = _MOST_POOLED if name == "max_soft_tokens" else _MOST
        if type(value) is not int or not 1 <= value <= most:
            raise ExportError(f"{path} has {name} {value!r}; it must be from 1 to {most}.")
    rows = min(counts["max_soft_tokens"], most_rows)
    return PatchSettings(counts["patch_size"], counts["pooling_kernel_size"], 1, rows, 2.0)


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
