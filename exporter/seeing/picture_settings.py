"""How a model reads pictures, from the files of its processor."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from exporter.errors import ExportError
from exporter.json_object import read_object
from exporter.seeing.patch_settings import (
    PatchSettings,
    read_patch_settings,
    read_pixel_bounds,
    read_pooled_patches,
)

_PROCESSOR, _PICTURES = "processor_config.json", "preprocessor_config.json"
_TOKENIZER = "tokenizer_config.json"
_OF_PATCHES = "Lfm2VlImageProcessor"
_OF_SQUARES = "Qwen2VLImageProcessor"
_OF_ONE_SIZE = "Gemma3ImageProcessor"
_OF_MEANS = "Gemma4ImageProcessor"
_PROCESSORS = (
    *("Idefics3ImageProcessor", "SmolVLMImageProcessor"),
    *(_OF_PATCHES, _OF_SQUARES, _OF_ONE_SIZE, _OF_MEANS),
)
_UNPADDED = (_OF_SQUARES, _OF_ONE_SIZE, _OF_MEANS)
_SUFFIXES = ("Fast", "Pil")  # of the same one, by what computes it
_MUST_BE = dict.fromkeys(("do_convert_rgb", "do_resize", "do_rescale", "do_normalize"), True)
_FILTERS = {1: "Lanczos", 2: "bilinear", 3: "bicubic"}  # by Pillow's numbers
_MOST_SIDE = 4096  # to which the processor limits pictures
_STANDARD = [0.5, 0.5, 0.5]
_CLIP_MEAN = [0.48145466, 0.4578275, 0.40821073]
_CLIP_STD = [0.26862954, 0.26130258, 0.27577711]


@dataclass(frozen=True)
class PlaceText:
    """What stands in a text for a picture, by the schema's names."""

    place: str
    before_tile: str = ""
    after_row: str = ""
    before_whole: str = ""
    before_only: str = ""
    after_picture: str = ""
    before_picture: str = ""
    row_place: str = ""


@dataclass(frozen=True)
class PictureSettings:
    """The fields of schemas/picture.fbs, but for what the model and its template say.

    Attributes:
        rows: of numbers that a tile becomes, if the processor says it.
        patches: None: a model reads tiles as pixels.
    """

    longest_edge: int
    side: int
    tiles: bool
    filter: int
    rescale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    rows: int | None
    text: PlaceText
    torch: bool = False
    patches: PatchSettings | None = None


def read_picture_settings(directory: Path, most_rows: int = 4096) -> PictureSettings:
    """
    Args:
        most_rows: that a picture becomes where the processor names no bound near it.

    Raises:
        ExportError: the files are missing or damaged, or ask for something else.
    """
    path, fields = _fields(directory)
    kind = str(fields.get("image_processor_type", _PROCESSORS[0]))
    for suffix in _SUFFIXES:
        kind = kind.removesuffix(suffix)
    if kind not in _PROCESSORS:
        raise ExportError(
            f"{path} has image_processor_type {kind}, but only {', '.join(_PROCESSORS)} are "
            "supported; --no-vision exports the language model alone."
        )
    own = {} if kind in _UNPADDED else {"do_pad": True}
    if kind == _OF_MEANS:
        own = {"do_normalize": False}
    for name, value in {**_MUST_BE, **own}.items():
        if fields.get(name, value) not in (value, None):
            raise ExportError(f"{path} has {name} {fields[name]}, but only {value} is supported.")
    if kind == _OF_SQUARES:
        return _settings_of_squares(directory, path, fields, most_rows)
    if kind == _OF_MEANS:
        return _settings_of_means(directory, path, fields, most_rows)
    if kind == _OF_ONE_SIZE:
        return _settings_of_one_size(directory, path, fields)
    if kind == _OF_PATCHES:
        return _settings_of_patches(directory, path, fields)
    side = _edge(path, fields, "max_image_size", 364)
    longest = _edge(path, fields, "size", 4 * 364)
    rows = _processor(directory).get("image_seq_len")
    return PictureSettings(
        longest_edge=longest,
        side=side,
        tiles=fields.get("do_image_splitting") is not False,
        filter=_filter(path, fields, _FILTERS),
        rescale=_numbers(path, fields, "rescale_factor", 1 / 255, 1)[0],
        mean=_numbers(path, fields, "image_mean", _STANDARD, 3),
        std=_numbers(path, fields, "image_std", _STANDARD, 3),
        rows=rows if isinstance(rows, int) else None,
        text=_text_of_tiles(directory),
    )


def _settings_of_patches(directory: Path, path: Path, fields: Mapping[str, Any]) -> PictureSettings:
    """Those of LFM2-VL, whose pictures torch resizes and normalizes: bytes are not rescaled, but
    what is subtracted and divided by is."""
    patches = read_patch_settings(path, fields)
    mean, std = _levels(path, fields, _STANDARD, _STANDARD)
    side = fields.get("tile_size", 512)
    if type(side) is not int or not 1 <= side <= _MOST_SIDE:
        raise ExportError(f"{path} has tile_size {side!r}; it must be from 1 to {_MOST_SIDE}.")
    return PictureSettings(
        longest_edge=0,
        side=side,
        tiles=bool(patches.grids),
        filter=_filter(path, fields, {number: _FILTERS[number] for number in (2, 3)}, 2),
        rescale=1.0,
        mean=mean,
        std=std,
        rows=None,
        text=_text_of_patches(directory),
        torch=True,
        patches=patches,
    )


def _settings_of_squares(
    directory: Path, path: Path, fields: Mapping[str, Any], most_rows: int
) -> PictureSettings:
    """Those of Qwen, whose pictures torch resizes and normalizes, too; there are no tiles."""
    patches = read_pixel_bounds(path, fields, most_rows)
    mean, std = _levels(path, fields, _CLIP_MEAN, _CLIP_STD)
    names = _token_names(directory, {"image_token": "<|image_pad|>"})
    return PictureSettings(
        longest_edge=0,
        side=math.isqrt(patches.most_rows) * patches.size * patches.square,
        tiles=False,
        filter=_filter(path, fields, {number: _FILTERS[number] for number in (2, 3)}, 3),
        rescale=1.0,
        mean=mean,
        std=std,
        rows=None,
        text=PlaceText(names["image_token"]),
        torch=True,
        patches=patches,
    )


def _settings_of_means(
    directory: Path, path: Path, fields: Mapping[str, Any], most_rows: int
) -> PictureSettings:
    """Those of Gemma 4, whose pictures torch resizes and rescales; the model does the rest, twice
    what is above one half."""
    patches = read_pooled_patches(path, fields, most_rows)
    rescale = np.float32(_numbers(path, fields, "rescale_factor", 1 / 255, 1)[0])
    names = _token_names(
        directory,
        {"boi_token": "<|image>", "eoi_token": "<image|>", "image_token": "<|image|>"},
    )
    return PictureSettings(
        longest_edge=0,
        side=math.isqrt(patches.most_rows) * patches.size * patches.square,
        tiles=False,
        filter=_filter(path, fields, {number: _FILTERS[number] for number in (2, 3)}, 3),
        rescale=float(rescale),
        mean=tuple(_STANDARD),
        std=tuple(_STANDARD),
        rows=None,
        text=PlaceText(
            names["image_token"],
            before_picture=names["boi_token"],
            after_picture=names["eoi_token"],
        ),
        torch=True,
        patches=patches,
    )


def _settings_of_one_size(
    directory: Path, path: Path, fields: Mapping[str, Any]
) -> PictureSettings:
    """Those of Gemma 3, which reads every picture as one square."""
    if fields.get("do_pan_and_scan"):
        raise ExportError(
            f"{path} has do_pan_and_scan {fields['do_pan_and_scan']}, but only False is supported."
        )
    size = fields.get("size", {"height": 224, "width": 224})
    side = size.get("height") if isinstance(size, dict) else None
    if type(side) is not int or not 1 <= side <= _MOST_SIDE or size.get("width") != side:
        raise ExportError(
            f"{path} has size {size!r}; its height and width must be one number from 1 to "
            f"{_MOST_SIDE}."
        )
    rows = _processor(directory).get("image_seq_length")
    return PictureSettings(
        longest_edge=0,
        side=side,
        tiles=False,
        filter=_filter(path, fields, _FILTERS, 2),
        rescale=_numbers(path, fields, "rescale_factor", 1 / 255, 1)[0],
        mean=_numbers(path, fields, "image_mean", _STANDARD, 3),
        std=_numbers(path, fields, "image_std", _STANDARD, 3),
        rows=rows if isinstance(rows, int) else None,
        text=_text_of_one(directory),
    )


def _levels(
    path: Path, fields: Mapping[str, Any], mean: list[float], std: list[float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns what torch subtracts from bytes, and what it divides them by.

    Args:
        mean, std: the usual ones, of bytes that are rescaled.
    """
    levels = np.float32(1 / _numbers(path, fields, "rescale_factor", 1 / 255, 1)[0])
    usual = {"image_mean": mean, "image_std": std}
    scaled = [
        tuple(float(np.float32(one) * levels) for one in _numbers(path, fields, name, own, 3))
        for name, own in usual.items()
    ]
    return scaled[0], scaled[1]


def _filter(path: Path, fields: Mapping[str, Any], known: Mapping[int, str], usual: int = 1) -> int:
    resample = fields.get("resample", usual)
    if not isinstance(resample, int) or resample not in known:
        allowed = ", ".join(f"{number} ({name})" for number, name in known.items())
        raise ExportError(f"{path} has resample {resample}; it must be one of {allowed}.")
    return resample


def _processor(directory: Path) -> Mapping[str, Any]:
    """Returns the fields of processor_config.json, if there is one."""
    path = directory / _PROCESSOR
    return read_object(path) if path.is_file() else {}


def _fields(directory: Path) -> tuple[Path, Mapping[str, Any]]:
    """Returns the file that says how pictures are read, and its fields."""
    nested = _processor(directory).get("image_processor")
    if isinstance(nested, dict):
        return directory / _PROCESSOR, nested
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


def _text_of_tiles(directory: Path) -> PlaceText:
    names = _token_names(
        directory,
        {
            "image_token": "<image>",
            "fake_image_token": "<fake_token_around_image>",
            "global_image_token": "<global-img>",
        },
    )
    fake = names["fake_image_token"]
    whole = fake + names["global_image_token"]
    before_tile = fake + "<row_{row}_col_{column}>"
    return PlaceText(names["image_token"], before_tile, "\n", "\n" + whole, whole, fake)


def _text_of_patches(directory: Path) -> PlaceText:
    names = _token_names(
        directory,
        {
            "image_token": "<image>",
            "image_start_token": "<|image_start|>",
            "image_end_token": "<|image_end|>",
            "image_thumbnail_token": "<|img_thumbnail|>",
        },
    )
    if _processor(directory).get("use_image_special_tokens") is False:
        return PlaceText(names["image_token"])
    return PlaceText(
        place=names["image_token"],
        before_tile="<|img_row_{row}_col_{column}|>",
        before_whole=names["image_thumbnail_token"],
        after_picture=names["image_end_token"],
        before_picture=names["image_start_token"],
    )


def _text_of_one(directory: Path) -> PlaceText:
    names = _token_names(
        directory,
        {
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
            "image_token": "<image_soft_token>",
        },
    )
    place = names["boi_token"]
    return PlaceText(
        place=place,
        after_picture=names["eoi_token"] + "\n\n",
        before_picture="\n\n" + place,
        row_place=names["image_token"],
    )


def _token_names(directory: Path, usual: Mapping[str, str]) -> dict[str, str]:
    """Returns the texts of the tokens around pictures, by the names that processors give them.

    Args:
        usual: the texts of those that are not stored.
    """
    path = directory / _TOKENIZER
    stored = read_object(path) if path.is_file() else {}
    own = {name: stored[name] for name in usual if isinstance(stored.get(name), str)}
    return {**usual, **own}
