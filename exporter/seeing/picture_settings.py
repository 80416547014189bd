"""How a model reads pictures, from the files of its processor."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.errors import ExportError
from exporter.json_object import read_object

_PROCESSOR, _PICTURES = "processor_config.json", "preprocessor_config.json"
_TOKENIZER = "tokenizer_config.json"
_PROCESSORS = ("Idefics3ImageProcessor", "SmolVLMImageProcessor")
_SUFFIXES = ("Fast", "Pil")  # of the same one, by what computes it
_MUST_BE = dict.fromkeys(
    ("do_convert_rgb", "do_resize", "do_rescale", "do_normalize", "do_pad"), True
)
_FILTERS = {1: "Lanczos", 2: "bilinear", 3: "bicubic"}  # by Pillow's numbers
_MOST_SIDE = 4096  # to which the processor limits pictures
_STANDARD = [0.5, 0.5, 0.5]


@dataclass(frozen=True)
class PictureSettings:
    """The fields of schemas/picture.fbs, but for what the model and its template say."""

    longest_edge: int
    side: int
    tiles: bool
    filter: int
    rescale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    rows: int | None
    place: str
    fake: str
    whole: str


def read_picture_settings(directory: Path) -> PictureSettings:
    """
    Raises:
        ExportError: the files are missing or damaged, or ask for something else.
    """
    path, fields = _fields(directory)
    kind = str(fields.get("image_processor_type", _PROCESSORS[0]))
    for suffix in _SUFFIXES:
        kind = kind.removesuffix(suffix)
    if kind not in _PROCESSORS:
        raise ExportError(
            f"{path} has image_processor_type {kind}, but only {' and '.join(_PROCESSORS)} are "
            "supported; --no-vision exports the language model alone."
        )
    for name, value in _MUST_BE.items():
        if fields.get(name, value) not in (value, None):
            raise ExportError(f"{path} has {name} {fields[name]}, but only {value} is supported.")
    resample = fields.get("resample", 1)
    if not isinstance(resample, int) or resample not in _FILTERS:
        allowed = ", ".join(f"{number} ({name})" for number, name in _FILTERS.items())
        raise ExportError(f"{path} has resample {resample}; it must be one of {allowed}.")
    side = _edge(path, fields, "max_image_size", 364)
    longest = _edge(path, fields, "size", 4 * 364)
    rows = read_object(directory / _PROCESSOR).get("image_seq_len") if _has(directory) else None
    names = _token_names(directory)
    return PictureSettings(
        longest_edge=longest,
        side=side,
        tiles=fields.get("do_image_splitting") is not False,
        filter=resample,
        rescale=_numbers(path, fields, "rescale_factor", 1 / 255, 1)[0],
        mean=_numbers(path, fields, "image_mean", _STANDARD, 3),
        std=_numbers(path, fields, "image_std", _STANDARD, 3),
        rows=rows if isinstance(rows, int) else None,
        place=names["image_token"],
        fake=names["fake_image_token"],
        whole=names["global_image_token"],
    )


def _has(directory: Path) -> bool:
    return (directory / _PROCESSOR).is_file()


def _fields(directory: Path) -> tuple[Path, Mapping[str, Any]]:
    """Returns the file that says how pictures are read, and its fields."""
    path = directory / _PROCESSOR
    nested = read_object(path).get("image_processor") if _has(directory) else None
    if isinstance(nested, dict):
        return path, nested
    path = directory / _PICTURES
    if not path.is_file():
        raise ExportError(
            f"{directory} has no {_PICTURES}, which says how the model reads pictures; download "
            "it as well, or leave pictures out with --no-vision."
        )
    return path, read_object(path)


def _edge(path: Path, fields: Mapping[str, Any], name: str, usual: int) -> int:
    value = fields.get(name, {"longest_edge": usual})
    edge = value.get("longest_edge") if isinstance(value, dict) else None
    if not isinstance(edge, int) or isinstance(edge, bool) or not 1 <= edge <= _MOST_SIDE:
        raise ExportError(
            f"{path} has {name} {value!r}; its longest_edge must be a number from 1 to "
            f"{_MOST_SIDE}."
        )
    return edge


def _numbers(
    path: Path, fields: Mapping[str, Any], name: str, usual: Any, count: int
) -> tuple[float, ...]:
    value = fields.get(name, usual)
    numbers = value if isinstance(value, list) else [value]
    fits = all(
        isinstance(one, float | int)
        and not isinstance(one, bool)
        and abs(one) <= sys.float_info.max
        for one in numbers
    )
    if not fits or len(numbers) != count or (name != "image_mean" and 0 in numbers):
        raise ExportError(f"{path} has {name} {value!r}; it must be {count} numbers, none 0.")
    return tuple(float(one) for one in numbers)


def _token_names(directory: Path) -> dict[str, str]:
    """Returns the texts of the tokens around pictures, by the names that processors give them."""
    names = {
        "image_token": "<image>",
        "fake_image_token": "<fake_token_around_image>",
        "global_image_token": "<global-img>",
    }
    path = directory / _TOKENIZER
    if path.is_file():
        stored = read_object(path)
        names |= {name: stored[name] for name in names if isinstance(stored.get(name), str)}
    return names
