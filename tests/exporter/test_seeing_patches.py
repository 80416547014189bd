"""LFM2-VL: pictures near their own sizes, with the tokens of transformers."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import patched_models as models
from support.pictures import picture
from support.seeing_exports import OPTIONS, TOKENS, check_quantized, export

from exporter.errors import ExportError
from exporter.file.pte import read_blob
from exporter.seeing.picture_blob import PICTURE
from runtime import Chat, Program, Runner
from runtime.pictures import picture_tiles

pytestmark = pytest.mark.check

transformers = pytest.importorskip("transformers")
Patched = tuple[Path, Any, Path]


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory, cpp_build: Path) -> Patched:
    directory = tmp_path_factory.mktemp("lfm2_vl")
    model = models.write_patched(directory)
    result = export(directory)
    vision = result.report["vision"]
    assert vision["delegation"]["calls"] == 1 and not vision["delegation"]["left"]
    return result.out, model, directory


def reference(patched: Patched, text: str, sizes: list[Any]) -> tuple[list[int], int]:
    """The tokens of transformers up to its end, and how many the prompt has."""
    _, model, directory = patched
    images = [picture(*size) for size in sizes]
    inputs = models.Processor(**models.SMALL).inputs(directory, text, images)
    with torch.no_grad():
        generated = model.generate(**inputs, max_new_tokens=TOKENS, do_sample=False)
    count = inputs["input_ids"].shape[1]
    tokens = generated[0, count:].tolist()
    return tokens[: tokens.index(models.END)] if models.END in tokens else tokens, count


@pytest.mark.parametrize("sizes", [[(40, 30)], [(31, 90)], [(64, 64), (200, 20)], [(1, 1)]])
def test_tokens_are_those_of_transformers(
    patched: Patched, cpp_build: Path, tmp_path: Path, sizes: Any
) -> None:
    arguments: list[str | Path] = []
    for index, size in enumerate(sizes):
        picture(*size).save(tmp_path / f"{index}.ppm")
        arguments += ["--image", tmp_path / f"{index}.ppm"]
    places, out = "<image>" * len(sizes), tmp_path / "stats.json"
    question = f"<|im_start|>User:{places}What is it?<end_of_utterance>\nAssistant:"
    for text, prompt in {question: "What is it?", f"A{places}B": f"A{places}B"}.items():
        expected, count = reference(patched, text, sizes)
        command = [cpp_build / "runner", patched[0], "--temperature", "0", "-n", str(TOKENS)]
        command += ["--logprobs", "0", "--json", out, *arguments, "-p", prompt]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        stats = json.loads(out.read_text())
        tokens = [one["id"] for one in stats["logprobs"]]
        assert stats["prompt_tokens"] == count
        assert tokens[: len(expected)] == expected and tokens, prompt


def test_numbers_are_those_of_transformers(patched: Patched) -> None:
    """Of tiles and of wholes of several sizes, by one method."""
    pte, model, directory = patched
    images = [picture(40, 30), picture(100, 70), picture(9, 90)]
    processor = models.Processor(**models.SMALL)
    inputs = processor.inputs(directory, "<image>" * len(images), images)
    names = "pixel_values", "spatial_shapes", "pixel_attention_mask"
    with torch.no_grad():
        features = model.get_image_features(*(inputs[name] for name in names)).pooler_output
    blob = read_blob(pte, PICTURE)
    with Program(pte, threads=1) as forward:
        encode = forward.method("vision_encoder")
        rows = [encode(tile)[0] for one in images for tile in picture_tiles(blob, one)]
    assert len({one.shape for one in rows}) > 1
    for row, expected in zip(rows, features, strict=True):
        right = expected.numpy()
        np.testing.assert_allclose(row, right, atol=1e-4 * np.abs(right).max())


def test_sessions_hold_wholes_of_any_size(patched: Patched, tmp_path: Path) -> None:
    wide, tall = picture(60, 20), picture(100, 90)
    with Runner(patched[0], threads=1) as runner, Runner(patched[0], threads=1) as other:
        chat = Chat(runner)
        list(chat.say([{"image": wide}, {"image": tall}, "What?"], **OPTIONS))
        runner.save(tmp_path / "s")
        right = "".join(chat.say("Where?", **OPTIONS))
        list(other.generate([{"image": tall}, "Other numbers"], **OPTIONS))
        other.restore(tmp_path / "s")
        assert "".join(Chat(other).say("Where?", **OPTIONS)) == right
        assert other.stats["image_rows"] == 0
        # Pixels that are equal, of other sides, are another picture.
        gray = [np.full(shape, 128, np.uint8) for shape in ((16, 32), (32, 16))]
        texts = ["".join(other.generate([{"image": one}, "What?"], **OPTIONS)) for one in gray]
        assert other.stats["image_rows"] > 0 and len(texts) == 2


@pytest.mark.soak
@pytest.mark.parametrize(("name", "bits", "least"), [(None, 8, 0.995), ("gptq4", 4, 0.9)])
def test_what_sees_is_quantized(
    cpp_build: Path, tmp_path: Path, name: str | None, bits: int, least: float
) -> None:
    check_quantized(models.write_patched, tmp_path, name, bits, least, longest=200)


def test_what_cannot_be_exported(patched: Patched, tmp_path: Path) -> None:
    directory = tmp_path / "model"
    shutil.copytree(patched[2], directory, ignore=shutil.ignore_patterns("*.pte"))
    other = "makes other patches than the model reads; take both from the same model"
    for fields, sentence in {
        ("tile_size", 36): "tiles of 36 pixels, but the model reads squares of 8",
        ("encoder_patch_size", 8): other,
        ("downsample_factor", 4): other,
        ("image_processor_type", "SmolVLMImageProcessor"): "tiles of 364 pixels, but",
    }.items():
        models.write_processor(directory, **dict([fields]))
        with pytest.raises(ExportError, match=sentence):
            export(directory)
        assert not (directory / "m.pte").exists()
