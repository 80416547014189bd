"""Qwen3.5 and Qwen3-VL with sight: pictures whose rows rotate by time, row and column, with the
tokens of transformers."""

import json
import shutil
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import turned_models as models
from support.pictures import picture
from support.seeing_exports import (
    OPTIONS,
    TOKENS,
    answered,
    check_quantized,
    check_without_vision,
    export,
)
from support.tiers import soaked, soaked_rows

from exporter.errors import ExportError
from exporter.file.pte import read_blob
from exporter.models import qwen_sight
from exporter.seeing.picture_blob import PICTURE, write_picture
from exporter.seeing.picture_settings import read_picture_settings
from runtime import Chat, Engine, Program, Runner, RunnerError
from runtime.pictures import picture_tiles

pytestmark = pytest.mark.check

transformers = pytest.importorskip("transformers")
Turned = tuple[Path, Any, Path]


@pytest.fixture(scope="module", params=["qwen3_5", "qwen3_vl"])
def turned(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cpp_build: Path
) -> Turned:
    directory = tmp_path_factory.mktemp(request.param)
    model = models.write_turned(directory, model_type=request.param)
    result = export(directory)
    vision = result.report["vision"]
    assert vision["delegation"]["calls"] == 1 and not vision["delegation"]["left"]
    return result.out, model, directory


def reference(turned: Turned, text: str, sizes: list[Any]) -> tuple[list[int], int]:
    """The tokens of transformers up to where a turn ends or begins, and how many the prompt has."""
    _, model, directory = turned
    images = [picture(*size) for size in sizes]
    inputs = models.Processor(**models.SMALL).inputs(directory, text, images)
    model.model.rope_deltas = None  # of the text before
    with torch.no_grad():
        generated = model.generate(**inputs, max_new_tokens=TOKENS, do_sample=False)
    count = inputs["input_ids"].shape[1]
    tokens = generated[0, count:].tolist()
    ends = [tokens.index(one) for one in (models.END, models.START) if one in tokens]
    return tokens[: min(ends, default=TOKENS)], count


@pytest.mark.parametrize(
    "sizes", [[], [(40, 30)], [(31, 90)], [(64, 64), (200, 20)], [(1, 1)], [(9, 60)]]
)
def test_tokens_are_those_of_transformers(
    turned: Turned, cpp_build: Path, tmp_path: Path, sizes: Any
) -> None:
    arguments: list[str | Path] = []
    for index, size in enumerate(sizes):
        picture(*size).save(tmp_path / f"{index}.ppm")
        arguments += ["--image", tmp_path / f"{index}.ppm"]
    place, out = "<|vision_start|><|image_pad|><|vision_end|>", tmp_path / "stats.json"
    places = place * len(sizes)
    question = f"<|im_start|>user\n{places}What is it?<|im_end|>\n<|im_start|>assistant\n"
    prompts = {f"A{places}B": f"A{places}B"}
    if sizes:
        prompts[question] = "What is it?"
    for text, prompt in prompts.items():
        expected, count = reference(turned, text, sizes)
        for more in ([], ["--draft", "ngram"]):
            command = [cpp_build / "runner", turned[0], "--temperature", "0", "-n", str(TOKENS)]
            command += ["--logprobs", "0", "--json", out, *arguments, *more, "-p", prompt]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            stats = json.loads(out.read_text())
            tokens = [one["id"] for one in stats["logprobs"]]
            assert stats["prompt_tokens"] == count
            assert tokens[: len(expected)] == expected and tokens, prompt


def test_numbers_are_those_of_transformers(turned: Turned) -> None:
    """Of pictures of several sizes, by one method."""
    pte, model, directory = turned
    images = [picture(40, 30), picture(100, 70), picture(9, 90)]
    processor = models.Processor(**models.SMALL)
    inputs = processor.inputs(directory, models.PLACE * len(images), images)
    names = "pixel_values", "image_grid_thw"
    with torch.no_grad():
        seen = model.model.get_image_features(*(inputs[name] for name in names))
    parts = seen.pooler_output, *getattr(seen, "deepstack_features", ())
    features = [torch.cat(one, -1) for one in zip(*parts, strict=True)]
    blob = read_blob(pte, PICTURE)
    with Program(pte, threads=1) as forward:
        encode = forward.method("vision_encoder")
        rows = [encode(tile)[0] for one in images for tile in picture_tiles(blob, one)]
    assert len({one.shape for one in rows}) > 1
    for row, expected in zip(rows, features, strict=True):
        right = expected.numpy()
        np.testing.assert_allclose(row, right, atol=1e-4 * np.abs(right).max())


def test_positions_are_kept(turned: Turned, tmp_path: Path) -> None:
    """By sessions, texts that begin alike, and several texts at once."""
    wide, tall = picture(60, 20), picture(100, 90)
    with Runner(turned[0], threads=1) as runner, Runner(turned[0], threads=1) as other:
        chat = Chat(runner)
        list(chat.say([{"image": wide}, {"image": tall}, "What?"], **OPTIONS))
        runner.save(tmp_path / "s")
        right = "".join(chat.say("Where?", **OPTIONS))
        other.restore(tmp_path / "s")
        assert "".join(Chat(other).say("Where?", **OPTIONS)) == right
        assert other.stats["image_rows"] == 0
        asked: Any = [[{"image": tall}, "What?"], [{"image": tall}, "Why?"], ["Who?"]]
        alone = ["".join(Chat(runner).say(one, **OPTIONS)) for one in asked]
        with Engine(other, sequences=3) as engine:
            assert [answered(engine, one) for one in asked] == alone


def expected_pixels(processor: models.Processor, size: tuple[int, int]) -> np.ndarray:
    patches = processor.patches(picture(*size))
    apart = patches.unflatten(2, (3, processor.patch, processor.patch)).permute(0, 1, 3, 4, 2)
    return models.in_squares(apart.flatten(2)).numpy()


MANY = [(n * 7 % 150 + 10, n % 160 + 10) for n in range(200)]
SIZES = [(40, 30), (31, 90), (64, 64), (200, 20), (1, 1), (20, 14), (100, 10), (12, 12)]
SIZES += [(1600, 10), (10, 1990), (180, 1), (30, 4000)]  # longer than their bounds


@pytest.mark.parametrize("sizes", [SIZES, MANY])
@pytest.mark.parametrize("fields", [{}, {"resample": 3, "min_pixels": 300, "max_pixels": 3000}])
def test_pixels_are_those_of_transformers(
    cpp_build: Path, tmp_path: Path, fields: Any, sizes: Any
) -> None:
    models.write_processor(tmp_path, **fields)
    settings, config = read_picture_settings(tmp_path), models.config().to_dict()
    spec = qwen_sight.FAMILY.spec(config)
    blob = write_picture(settings, spec)
    bounds = fields and {"shortest_edge": 300, "longest_edge": 3000}
    processor = models.Processor(**{**models.SMALL, **(bounds and {"size": bounds})})
    wrong = total = 0
    for size in sizes:
        (numbers,) = picture_tiles(blob, picture(*size))
        expected = expected_pixels(processor, size)
        pixels = spec.pixel_numbers
        assert numbers.shape == (1, len(expected), spec.numbers), size
        wrong += int((numbers[0, :, :pixels] != expected).sum())
        total += expected.size
        np.testing.assert_allclose(numbers[0, :, :pixels], expected, atol=1 / 255 / 0.25)
        width, height = (one // models.PATCH for one in processor.size(*size))
        places = qwen_sight.place_weights(spec.trained, height, width)
        beside = torch.cat([places, qwen_sight.angles(spec, height, width)], 2)
        right = models.in_squares(beside).numpy()
        np.testing.assert_allclose(numbers[0, :, pixels:], right, atol=1e-5)
    assert wrong <= total / 100


def test_a_bound_of_less_than_a_pixel_is_refused(cpp_build: Path, tmp_path: Path) -> None:
    """Nothing would be left of a small picture."""
    models.write_processor(tmp_path)
    settings = read_picture_settings(tmp_path)
    assert settings.patches is not None
    least = replace(settings, patches=replace(settings.patches, least_pixels=1e-320))
    spec = qwen_sight.FAMILY.spec(models.config().to_dict())
    with pytest.raises(RunnerError, match="pictures are damaged .its patches"):
        picture_tiles(write_picture(least, spec), picture(9, 9))


@pytest.mark.parametrize(
    ("model_type", "name", "bits", "least"),
    [
        ("qwen3_vl", None, 8, 0.995),
        *soaked_rows([(name, "gptq4", 4, 0.9) for name in ("qwen3_vl", "qwen3_5")]),
        *soaked_rows([("qwen3_5", None, 8, 0.995)]),
    ],
)
def test_what_sees_is_quantized(
    cpp_build: Path, tmp_path: Path, model_type: str, name: str | None, bits: int, least: float
) -> None:
    check_quantized(
        partial(models.write_turned, model_type=model_type), tmp_path, name, bits, least
    )


@pytest.mark.parametrize("model_type", [*soaked(["qwen3_5"]), "qwen3_vl"])
def test_without_vision(tmp_path: Path, model_type: str) -> None:
    check_without_vision(partial(models.write_turned, model_type=model_type), tmp_path)


@pytest.mark.parametrize("turned", ["qwen3_5"], indirect=True)
def test_what_cannot_be_exported(turned: Turned, tmp_path: Path) -> None:
    directory = tmp_path / "model"
    shutil.copytree(turned[2], directory, ignore=shutil.ignore_patterns("*.pte"))
    for fields, sentence in {
        ("patch_size", 8): "makes other patches than the model reads",
        ("temporal_patch_size", 3): "temporal_patch_size 3, but only 2 is supported",
        ("max_pixels", 60): "max_pixels 60, but a row of the model is made of 64 pixels",
        ("merge_size", -1): "merge_size -1; it must be a number, 1 or more",
        ("resample", 1): "resample 1; it must be one of 2 .bilinear., 3 .bicubic",
    }.items():
        models.write_processor(directory, **dict([fields]))
        with pytest.raises(ExportError, match=sentence):
            export(directory)
        assert not (directory / "m.pte").exists()


def test_configs_are_refused() -> None:
    config = models.config().to_dict()
    vision, text = config["vision_config"], config["text_config"]
    rope = text["rope_parameters"]
    for fields, sentence in {
        "num_position_embeddings 17": "num_position_embeddings is 17; it must be a square",
        "num_heads 8": "heads of 6 numbers; they must be a multiple of 4",
        "out_hidden_size 9": "out_hidden_size",
        "temporal_patch_size 1": "temporal_patch_size",
    }.items():
        name, value = fields.split()
        with pytest.raises(ExportError, match=sentence):
            qwen_sight.FAMILY.spec({**config, "vision_config": {**vision, name: int(value)}})
    for layers in ([1, 0], [0, 3], [0, 0], [-1], [0.5], [[0]], None, "0"):
        other = models.config("qwen3_vl").to_dict()
        other["vision_config"]["deepstack_visual_indexes"] = layers
        with pytest.raises(ExportError, match="deepstack_visual_indexes is .*, each once and in"):
            qwen_sight.FAMILY.spec(other)
    wrong = {**text, "rope_parameters": {**rope, "mrope_section": [1, 2]}}
    with pytest.raises(ExportError, match="mrope_section is .1, 2.; it must be 3 numbers"):
        qwen_sight.FAMILY.spec({**config, "text_config": wrong})


@pytest.mark.parametrize("model_type", ["qwen3_5", "qwen3_vl"])
def test_fields_that_are_not_stored_are_those_of_transformers(model_type: str) -> None:
    text = {"hidden_size": 4096, "num_hidden_layers": 32}
    sparse = {
        "model_type": model_type,
        "text_config": {**text, "model_type": f"{model_type}_text", "vocab_size": 300000},
        "vision_config": {"out_hidden_size": 4096},
    }
    whole = transformers.AutoConfig.for_model(**sparse).to_dict()
    assert qwen_sight.FAMILY.spec(sparse) == qwen_sight.FAMILY.spec(whole)
