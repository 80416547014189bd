"""Pictures as models read them: files, colors, resizing and tiles, in C++, equal to Pillow's."""

import io
import struct
import subprocess
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps
from support import patched_models
from support import seeing_models as models

from exporter.errors import ExportError
from exporter.models import siglip2
from exporter.models.siglip import FAMILY
from exporter.seeing.picture_blob import write_picture
from exporter.seeing.picture_settings import (
    PictureSettings,
    PlaceText,
    read_picture_settings,
)

SIZES = [
    *((64, 64), (96, 96), (97, 33), (33, 97), (1, 1), (1, 300), (300, 1), (2, 3), (640, 480)),
    *((479, 641), (31, 33), (128, 127), (100, 999), (333, 334), (95, 97), (97, 96), (512, 17)),
    *((13, 130), (201, 200), (50, 49)),
]


def picture(width: int, height: int, mode: str = "RGB") -> Image.Image:
    """Slopes with edges and noise, so that filters overshoot."""
    random = np.random.default_rng(width * 10007 + height)
    channels = len(mode)
    values = random.integers(0, 256, (height, width, channels))
    slopes = (
        np.linspace(0, 255, width)[None, :, None] + 40 * np.sin(np.arange(height))[:, None, None]
    )
    values = np.where(values > 128, slopes, values).clip(0, 255).astype(np.uint8)
    values[height // 3 : height // 2] = 255 * (random.integers(0, 2, channels))
    return Image.fromarray(values[..., 0] if channels == 1 else values, mode)


def saved(image: Image.Image, form: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


@pytest.fixture
def ask(cpp_build: Path, tmp_path: Path) -> Any:
    """Asks picture_cli; returns its bytes, or an error's sentence."""

    def run(what: str, file: bytes, *arguments: int | bytes) -> bytes | str:
        (tmp_path / "x").write_bytes(file)
        if arguments and isinstance(arguments[0], bytes):
            (tmp_path / "blob").write_bytes(arguments[0])
            arguments = (tmp_path / "blob",)  # type: ignore[assignment]
        command = [cpp_build / "picture_cli", what, tmp_path / "x", *map(str, arguments)]
        outcome = subprocess.run(command, capture_output=True)
        return outcome.stderr.decode() if outcome.returncode else outcome.stdout

    return run


def pixels(answer: bytes | str) -> np.ndarray:
    assert isinstance(answer, bytes), answer
    width, height = struct.unpack_from("<II", answer)
    return np.frombuffer(answer, np.uint8, offset=8).reshape(height, width, 3)


PILLOW, TORCH = 0, 1  # picture/resize.h's Reference


@pytest.mark.parametrize("resample", [1, 2, 3], ids=["lanczos", "bilinear", "bicubic"])
def test_resizing_is_pillows(ask: Any, resample: int) -> None:
    for index, size in enumerate(SIZES):
        image, to = picture(*size), SIZES[index - 7]
        resized = pixels(ask("resize", saved(image, "PPM"), *to, resample, PILLOW))
        expected = np.asarray(image.resize(to, Image.Resampling(resample)))
        np.testing.assert_array_equal(resized, expected, f"{size} to {to}")


@pytest.mark.parametrize(("resample", "mode"), [(2, "bilinear"), (3, "bicubic")])
def test_resizing_is_torchs(ask: Any, resample: int, mode: str) -> None:
    """To the bit where torch has its kernels for bytes; elsewhere it rounds floats."""
    for index, size in enumerate(SIZES):
        image, to = picture(*size), SIZES[index - 7]
        resized = pixels(ask("resize", saved(image, "PPM"), *to, resample, TORCH))
        planes = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None]
        expected = F.interpolate(planes, size=to[::-1], mode=mode, antialias=True)
        right = expected[0].permute(1, 2, 0).numpy()
        if torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512"):
            np.testing.assert_array_equal(resized, right, f"{size} to {to}")
        assert np.abs(resized.astype(int) - right).max() <= 1


def on_white(image: Image.Image) -> np.ndarray:
    """As transformers converts a picture."""
    if "A" in image.getbands() or image.info.get("transparency") is not None:
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image.convert("RGBA"))
    return np.asarray(image.convert("RGB"))


def reads(ask: Any, form: str) -> bool:
    """Whether the build reads files of a form."""
    answer = ask("pixels", saved(picture(3, 2), form))
    return isinstance(answer, bytes) or "was built without" not in answer


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "PPM"])
def test_colors_are_pillows(ask: Any, form: str) -> None:
    if not reads(ask, form):
        pytest.skip(f"built without a library for {form}")
    palette = picture(40, 30).quantize(17)
    clear = picture(40, 30).quantize(17)
    clear.info["transparency"] = bytes([0, 100, 255, 30])
    gray = picture(40, 30, "L")
    files = {
        "PNG": [
            (picture(41, 30), {}),
            (picture(41, 30, "RGBA"), {}),
            (gray, {}),
            (gray.convert("LA"), {}),
            (gray.convert("1"), {}),
            (palette, {"bits": 8}),
            (gray.quantize(4), {"bits": 2}),
            (clear, {"transparency": clear.info["transparency"]}),
            (gray, {"transparency": 255}),
        ],
        "JPEG": [
            (picture(41, 31), {"subsampling": 2}),
            (picture(41, 31), {"subsampling": 0, "progressive": True}),
            (gray, {}),
            (picture(40, 31).convert("CMYK"), {}),
        ],
        "WEBP": [(picture(41, 30), {}), (picture(41, 30, "RGBA"), {"lossless": True})],
        "PPM": [(picture(41, 30), {}), (gray, {})],
    }
    if form == "PPM":  # of other numbers than 0 to 255
        for most in (1, 6, 254):
            file = b"P6\n# of few\n9 7 %d\n" % most + bytes(i % (most + 1) for i in range(189))
            expected = on_white(Image.open(io.BytesIO(file)))
            np.testing.assert_array_equal(pixels(ask("pixels", file)), expected, str(most))
    for image, options in files[form]:
        file = saved(image, form, **options)
        expected = on_white(Image.open(io.BytesIO(file)))
        np.testing.assert_array_equal(pixels(ask("pixels", file)), expected, f"{image} {options}")


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
def test_pictures_are_turned_upright(ask: Any, form: str) -> None:
    if not reads(ask, form):
        pytest.skip(f"built without a library for {form}")
    for orientation in range(10):
        exif = Image.Exif()
        exif[0x0112] = orientation
        file = saved(picture(17, 12), form, exif=exif)
        expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(file))))
        np.testing.assert_array_equal(pixels(ask("pixels", file)), expected, str(orientation))


def chunk(name: bytes, data: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(name + data))
    return struct.pack(">I", len(data)) + name + data + check


def png(width: int, height: int, bits: int, color: int, rows: bytes) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def test_the_high_byte_of_16_bits_counts(ask: Any) -> None:
    numbers = [0, 255, 256, 0x7FFF, 0x80FF, 0xFFFF]
    high = np.array([[number >> 8] * 3 for number in numbers], np.uint8)[None]
    row = b"\0" + struct.pack(">6H", *numbers)
    ppm = b"P5 6 1 65535\n" + row[1:]
    if reads(ask, "PNG"):
        np.testing.assert_array_equal(pixels(ask("pixels", png(6, 1, 16, 0, row))), high)
    rounded = np.array([round(number * 255 / 65535) for number in numbers], np.uint8)
    np.testing.assert_array_equal(pixels(ask("pixels", ppm))[0, :, 0], rounded)


def test_what_is_not_read(ask: Any) -> None:
    ppm = saved(picture(9, 7), "PPM")
    refused = {
        "is not a picture that is read: it must be a PNG, JPEG, WebP or PPM": b"a text, no more",
        "x is not a picture": b"P6",
        "x is cut off": ppm[:-1],
        "x has no pixels": b"P6 0 7 255\n" + ppm,
        "100000 x 1001 pixels, but at most 100 million": b"P6 100000 1001 255\n" + ppm,
        "9999999999 x 9999999999 pixels": b"P6 9999999999999999999999 9999999999 255\n",
        "its largest number is 65536, but must be 1 to 65535": b"P6 9 7 65536\n" + ppm,
    }
    begins = {
        "GIF": b"GIF89a",
        "BMP": b"BM\x46\1\0\0\0\0\0\0",
        "TIFF": b"II*\0",
        "HEIC": b"\0\0\0\x18ftypheic",
        "AVIF": b"\0\0\0\x1cftypavif",
        "JPEG XL": b"\xff\x0a",
        "JPEG 2000": b"\0\0\0\x0cjP  ",
        "SVG": b"<svg xmlns=",
        "PDF": b"%PDF-1.7",
    }
    for name, start in begins.items():
        sentence = f"x has the format {name}, which is not read: save it as PNG or JPEG"
        refused |= {sentence: start + b"\0" * 99}
    if reads(ask, "PNG"):
        file = saved(picture(90, 70), "PNG")
        refused |= {"x is cut off: write": file[: len(file) // 2]}
        refused |= {"50000 x 50000 pixels": png(50000, 50000, 8, 2, b"\0")}
        moving = saved(picture(9, 7), "PNG", save_all=True, append_images=[picture(9, 8)])
        refused |= {"x is an animation": moving}
        refused |= {"is a damaged PNG file": file[:60] + b"\xff" * 40 + file[100:]}
    if reads(ask, "JPEG"):
        file = saved(picture(90, 70), "JPEG")
        refused |= {"x is cut off: write it": file[: len(file) // 2]}
        odd = file.replace(b"\xff\xc0\x00\x11\x08", b"\xff\xc0\x00\x11\x09")  # bits of a number
        refused |= {"is a damaged JPEG file (Unsupported": odd}
    if reads(ask, "WEBP"):
        file = saved(picture(90, 70), "WEBP")
        refused |= {"damaged WebP file, or cut off": file[: len(file) // 2]}
        frames = [picture(9, 7), picture(9, 8).resize((9, 7))]
        moving = saved(frames[0], "WEBP", save_all=True, append_images=frames[1:])
        refused |= {"is an animation: save one of its pictures": moving}
    for sentence, file in refused.items():
        error = ask("pixels", file)
        assert isinstance(error, str) and sentence in error, (sentence, error)


def spec(side: int) -> Any:
    return FAMILY.spec(
        {
            "model_type": "smolvlm",
            "image_token_id": 7,
            "text_config": {"vocab_size": 50, "hidden_size": 64},
            "vision_config": {"image_size": side, "patch_size": side // 4},
        }
    )


@pytest.mark.parametrize("resample", [1, 3])
@pytest.mark.parametrize("splits", [True, False])
def test_tiles_are_those_of_transformers(
    ask: Any, tmp_path: Path, splits: bool, resample: int
) -> None:
    processor = models.picture_processor(do_image_splitting=splits, resample=resample)
    processor.save_pretrained(tmp_path)
    settings = read_picture_settings(tmp_path)
    blob = write_picture(settings, spec(models.SIDE))
    for size in SIZES:
        image = picture(*size)
        given = processor(image, return_row_col_info=True, return_tensors="np")
        answer = ask("tiles", saved(image, "PPM"), blob)
        assert isinstance(answer, bytes), answer
        rows, columns = struct.unpack_from("<II", answer)
        assert [[rows]] == list(given["rows"]) and [[columns]] == list(given["cols"]), size
        expected = given["pixel_values"][0]
        numbers = np.frombuffer(answer, "<f4", expected.size, 8).reshape(expected.shape)
        np.testing.assert_array_equal(numbers, expected, str(size))
        text = answer[8 + expected.nbytes :].decode()
        assert text.count("<image>") == len(expected) * spec(models.SIDE).rows(models.SIDE)
        assert f"<row_{rows}_col_{columns}>" in text or not rows


@pytest.mark.parametrize(
    "fields", [{"resample": 2}, {"resample": 3, "do_image_splitting": False}], ids=str
)
def test_patches_are_those_of_transformers(ask: Any, tmp_path: Path, fields: Any) -> None:
    """Of tiles and the whole; with each, how much of the learned places is in it."""
    own = {**patched_models.SMALL, **fields, "image_mean": [0.4, 0.5, 0.6], "image_std": [0.2] * 3}
    patched_models.write_processor(tmp_path, **own)
    spec = siglip2.FAMILY.spec(patched_models.config().to_dict())
    blob = write_picture(read_picture_settings(tmp_path), spec)
    processor, pixels = patched_models.Processor(**own), 3 * patched_models.PATCH**2
    for size in [*SIZES[:5], (80, 64), (45, 44), (200, 40), (64, 64), (160, 128)]:
        image = picture(*size)
        answer, at = ask("tiles", saved(image, "PPM"), blob), 8
        assert isinstance(answer, bytes), answer
        assert struct.unpack_from("<II", answer)[::-1] == (processor.grid(*size) or (0, 0)), size
        for patches in processor.patches(image):
            places = siglip2.place_weights(spec.trained, *patches.shape[:2])
            right = torch.cat([patches, places], 2).unflatten(1, (-1, 2)).unflatten(0, (-1, 2))
            expected = right.transpose(1, 2).flatten(0, 3).numpy()
            numbers = np.frombuffer(answer, "<f4", expected.size, at).reshape(expected.shape)
            np.testing.assert_array_equal(numbers[:, :pixels], expected[:, :pixels], str(size))
            np.testing.assert_allclose(numbers[:, pixels:], expected[:, pixels:], atol=1e-6)
            at += expected.nbytes
        assert answer[at:].decode() == processor.text(image), size


def test_rows_of_lfm2_vl(ask: Any, tmp_path: Path) -> None:
    """As its processor counts them, whose sides are rounded half to even; where it fails on long
    pictures, as many as it allows."""
    own: Any = {"encoder_patch_size": 16, "tile_size": 512}
    own |= {"min_image_tokens": 64, "max_image_tokens": 256, "max_tiles": 10}
    patched_models.write_processor(tmp_path, **own)
    config = patched_models.config().to_dict()
    config["vision_config"]["patch_size"] = 16
    blob = write_picture(read_picture_settings(tmp_path), siglip2.FAMILY.spec(config))
    for size, (tiles, whole) in {
        (512, 512): (0, 256),
        (600, 512): (0, 238),
        (1600, 1200): (6, 234),
        (1, 1): (0, 64),
        (1, 2000): (0, 256),
        (40000, 2): (10, 256),
    }.items():
        answer = ask("tiles", saved(Image.new("RGB", size), "PPM"), blob)
        assert isinstance(answer, bytes), answer
        rows, columns = struct.unpack_from("<II", answer)
        text = answer[answer.index(b"<|image_start|>") :].decode()
        assert rows * columns == tiles and text.count("<image>") == 256 * tiles + whole, size


def test_damaged_settings(ask: Any) -> None:
    text = PlaceText("i", "t", "r", "w", "o", "p")
    settings = PictureSettings(96, 32, True, 1, 1 / 255, (0.5,) * 3, (0.5,) * 3, None, text)
    blob = write_picture(settings, spec(32))
    small = write_picture(replace(settings, longest_edge=4096, side=1), spec(32))
    long_text = replace(text, place=99 * "i")
    large = replace(settings, longest_edge=4096, side=4096, text=long_text)
    long = write_picture(large, spec(32))
    for damaged in (b"", blob[:8], blob[:-90], blob.replace(b"THPI", b"THPO"), small, long):
        assert "export the model again" in ask("tiles", saved(picture(9, 9), "PPM"), damaged)


@pytest.mark.parametrize(
    "fields",
    [
        {"side": 4096, "grids": ((64, 64),)},  # 64 GB of tiles
        {"size": 256, "square": 16, "most_rows": 4096, "side": 4096},
        {"size": 1, "square": 1, "most_rows": 4096, "trained": 256},  # of learned places
    ],
    ids=["tiles", "whole", "places"],
)
def test_settings_that_no_memory_holds(ask: Any, tmp_path: Path, fields: dict[str, Any]) -> None:
    patched_models.write_processor(tmp_path)
    settings = read_picture_settings(tmp_path)
    assert settings.patches is not None
    spec = siglip2.FAMILY.spec(patched_models.config().to_dict())
    spec = replace(spec, trained=fields.pop("trained", spec.trained))
    settings = replace(settings, side=fields.pop("side", settings.side))
    large = replace(settings, patches=replace(settings.patches, **fields))
    said = ask("tiles", saved(picture(9, 9), "PPM"), write_picture(large, spec))
    assert "the settings of pictures are damaged (too large pictures)" in said


def test_settings_are_read_and_refused(tmp_path: Path) -> None:
    path = tmp_path / "preprocessor_config.json"
    with pytest.raises(ExportError, match="no preprocessor_config.json.*--no-vision"):
        read_picture_settings(tmp_path)
    path.write_text('{"size": {"longest_edge": 2048}, "max_image_size": {"longest_edge": 512}}')
    read = read_picture_settings(tmp_path)
    assert (read.longest_edge, read.side, read.filter, read.tiles) == (2048, 512, 1, True)
    for text, sentence in {
        '{"do_resize": false}': "do_resize False, but only True is supported",
        '{"resample": 0}': "resample 0; it must be one of 1 .Lanczos",
        '{"size": {"longest_edge": 5000}}': "must be a number from 1 to 4096",
        '{"max_image_size": {"height": 9}}': "max_image_size",
        '{"image_std": [0.5, 0, 1]}': "image_std .*must be 3 numbers, none 0",
        '{"image_processor_type": "CLIPImageProcessor"}': "only Idefics3ImageProcessor, SmolVLM",
    }.items():
        path.write_text(text)
        with pytest.raises(ExportError, match=sentence):
            read_picture_settings(tmp_path)


def test_settings_of_patches_are_refused(tmp_path: Path) -> None:
    for fields, sentence in {
        ("resample", 1): "resample 1; it must be one of 2 .bilinear., 3 .bicubic",
        ("use_thumbnail", False): "use_thumbnail False, but only True is supported",
        ("min_tiles", 1): "min_tiles 1 and max_tiles 6; they must be 2 or more, in order",
        ("max_tiles", 65): "max_tiles 65; it must be from 1 to 64",
        ("min_image_tokens", 17): "min_image_tokens 17, but max_image_tokens 16",
        ("max_pixels_tolerance", 0): "max_pixels_tolerance 0; it must be above 0",
        ("tile_size", 0.5): "tile_size 0.5; it must be from 1 to 4096",
    }.items():
        patched_models.write_processor(tmp_path, **dict([fields]))
        with pytest.raises(ExportError, match=sentence):
            read_picture_settings(tmp_path)
    patched_models.write_processor(tmp_path, encoder_patch_size=128, max_image_tokens=4096)
    with pytest.raises(ExportError, match="of 268435456 pixels; at most 16777216 are read at once"):
        read_picture_settings(tmp_path)
