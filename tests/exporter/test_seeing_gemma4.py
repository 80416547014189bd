"""Gemma 4 with sight: pictures as large as a count of rows allows, whose rows have the inputs of a
layer's own from the blank token, with the tokens of transformers."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import gemma4_sight_models as models
from support.pictures import picture
from support.seeing_exports import (
    OPTIONS,
    TOKENS,
    answered,
    check_quantized,
    check_without_vision,
    export,
)
from support.tiers import checked

from exporter.errors import ExportError
from exporter.file.pte import read_blob
from exporter.models import gemma4_sight
from exporter.models.qwen_sight import angles
from exporter.seeing.picture_blob import PICTURE, write_picture
from exporter.seeing.picture_settings import read_picture_settings
from exporter.seeing.towers import fitted
from runtime import Chat, Engine, Program, Runner, RunnerError
from runtime.pictures import picture_tiles

transformers = pytest.importorskip("transformers")
SIZES = [(40, 30), (31, 90), (64, 64), (200, 20), (1, 1)]
LONG = [(3, 300), (300, 3), (12, 900), (84, 120), (1000, 1)]
Seeing = tuple[Path, Any, Path]


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory, cpp_build: Path) -> Seeing:
    directory = tmp_path_factory.mktemp("gemma4")
    model = models.write_seeing(directory)
    result = export(directory)
    vision = result.report["vision"]
    assert vision["delegation"]["calls"] == 1 and not vision["delegation"]["left"]
    return result.out, model, directory


def reference(seeing: Seeing, text: str, sizes: list[Any]) -> tuple[list[int], list[float], int]:
    """The tokens of transformers up to the end of a turn, their logarithms of probability, and how
    many tokens the prompt has."""
    _, model, directory = seeing
    images = [picture(*size) for size in sizes]
    inputs = models.Processor(**models.SMALL).inputs(directory, text, images)
    with torch.no_grad():
        generated = model.generate(
            **inputs,
            max_new_tokens=TOKENS,
            do_sample=False,
            return_dict_in_generate=True,
            output_logits=True,
        )
    count = inputs["input_ids"].shape[1]
    tokens = generated.sequences[0, count:].tolist()
    ends = [tokens.index(one) for one in (models.END, models.START) if one in tokens]
    tokens = tokens[: min(ends, default=TOKENS)]
    scores = [step[0].log_softmax(-1) for step in generated.logits]
    return tokens, [float(one[at]) for one, at in zip(scores, tokens, strict=False)], count


@pytest.mark.check
@pytest.mark.parametrize(
    "sizes", [[], [(64, 64), (200, 20)], [(40, 30)], [(31, 90)], [(1, 1)], [(9, 60)]]
)
def test_tokens_are_those_of_transformers(
    seeing: Seeing, cpp_build: Path, tmp_path: Path, sizes: Any
) -> None:
    arguments: list[str | Path] = []
    for index, size in enumerate(sizes):
        picture(*size).save(tmp_path / f"{index}.ppm")
        arguments += ["--image", tmp_path / f"{index}.ppm"]
    places, out = models.PLACE * len(sizes), tmp_path / "stats.json"
    question = f"<|turn>user\n{places}What is it?<turn|>\n<|turn>model\n"
    prompts = {f"A{places}B": f"A{places}B", f"{'long ' * 50}{places}B": None}
    if sizes:
        prompts[question] = "What is it?"
    for text, prompt in prompts.items():
        tokens, scores, count = reference(seeing, text, sizes)
        for more in ([], ["--draft", "ngram"]):
            command = [cpp_build / "runner", seeing[0], "--temperature", "0", "-n", str(TOKENS)]
            command += ["--logprobs", "0", "--json", out, *arguments, *more, "-p", prompt or text]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            stats = json.loads(out.read_text())
            given = stats["logprobs"][: len(tokens)]
            assert stats["prompt_tokens"] == count
            assert [one["id"] for one in given] == tokens and tokens, text
            np.testing.assert_allclose([one["logprob"] for one in given], scores, atol=1e-3)


@pytest.mark.check
def test_rows_are_those_of_transformers(seeing: Seeing) -> None:
    """Of pictures of several sizes, by one method."""
    pte, model, _ = seeing
    images = [picture(*size) for size in SIZES]
    inputs = models.Processor(**models.SMALL).pictures(images)
    with torch.no_grad():
        features = model.model.get_image_features(**inputs).pooler_output
    blob = read_blob(pte, PICTURE)
    with Program(pte, threads=1) as forward:
        encode = forward.method("vision_encoder")
        rows = [encode(*picture_tiles(blob, one))[0] for one in images]
    assert len({one.shape for one in rows}) > 2
    for row, expected in zip(rows, features, strict=True):
        right = expected.numpy()
        np.testing.assert_allclose(row, right, atol=1e-4 * np.abs(right).max())


@pytest.mark.check
def test_rows_are_kept(seeing: Seeing, tmp_path: Path) -> None:
    """By sessions, forks, texts that begin alike, and several texts at once."""
    wide, tall = picture(60, 20), picture(100, 90)
    with Runner(seeing[0], threads=1) as runner, Runner(seeing[0], threads=1) as other:
        chat = Chat(runner)
        list(chat.say([{"image": wide}, {"image": tall}, "What?"], **OPTIONS))
        runner.save(tmp_path / "s")
        with runner.fork() as branch:
            right = "".join(chat.say("Where?", **OPTIONS))
            assert runner.stats["image_rows"] == 0
            assert "".join(Chat(branch).say("Where?", **OPTIONS)) == right
        other.restore(tmp_path / "s")
        assert "".join(Chat(other).say("Where?", **OPTIONS)) == right
        assert other.stats["image_rows"] == 0
        asked: Any = [[{"image": tall}, "What?"], [{"image": tall}, "Why?"], ["Who?"]]
        alone = ["".join(Chat(runner).say(one, **OPTIONS)) for one in asked]
        with Engine(other, sequences=3) as engine:
            assert [answered(engine, one) for one in asked] == alone


def in_squares(patches: torch.Tensor, side: int) -> torch.Tensor:
    """Patches (height, width, numbers) by squares, (patches, numbers)."""
    squares = patches.unflatten(1, (-1, side)).unflatten(0, (-1, side))
    return squares.transpose(1, 2).flatten(0, 3)


@pytest.mark.parametrize(
    "sizes",
    [SIZES + LONG, *checked([[(n * 7 % 150 + 10, n % 160 + 10) for n in range(200)]])],
)
def test_numbers_of_patches_are_those_of_transformers(
    cpp_build: Path, tmp_path: Path, sizes: Any
) -> None:
    """Pixels equal to the bit, the places of the column and the row, and the angles."""
    models.write_processor(tmp_path)
    settings, config = read_picture_settings(tmp_path), models.config().to_dict()
    spec = fitted(gemma4_sight.FAMILY.spec(config), settings)
    blob, processor = write_picture(settings, spec), models.Processor(**models.SMALL)
    pixels, one_hot = spec.pixel_numbers, torch.eye(spec.trained)
    for size in sizes:
        (numbers,) = picture_tiles(blob, picture(*size))
        patches = processor.patches(picture(*size))
        height, width, _ = patches.shape
        expected = in_squares(2 * (patches - 0.5), models.SQUARE).numpy()
        assert numbers.shape == (1, height * width, spec.numbers), size
        np.testing.assert_array_equal(numbers[0, :, :pixels], expected)
        beside = [
            one_hot[:width].expand(height, -1, -1),
            one_hot[:height, None].expand(-1, width, -1),
            angles(spec, height, width),
        ]
        right = in_squares(torch.cat(beside, 2), models.SQUARE).numpy()
        np.testing.assert_allclose(numbers[0, :, pixels:], right, atol=1e-5)


def test_damaged_settings_are_refused(cpp_build: Path, tmp_path: Path) -> None:
    """Places of fewer patches than a picture may have, and tiles, which would have none."""
    models.write_processor(tmp_path)
    own = gemma4_sight.FAMILY.spec(models.config().to_dict())
    settings = read_picture_settings(tmp_path)
    assert settings.patches is not None
    tiled = replace(settings, patches=replace(settings.patches, grids=((2, 1),)))
    fewer = replace(own, trained=fitted(own, settings).trained - 1)
    for damaged in (write_picture(settings, fewer), write_picture(tiled, fitted(own, tiled))):
        with pytest.raises(RunnerError, match="pictures are damaged .its patches"):
            picture_tiles(damaged, picture(9, 9))


@pytest.mark.soak
@pytest.mark.parametrize(("name", "bits", "least"), [(None, 8, 0.99), ("gptq4", 4, 0.9)])
def test_what_sees_is_quantized(
    cpp_build: Path, tmp_path: Path, name: str | None, bits: int, least: float
) -> None:
    check_quantized(models.write_seeing, tmp_path, name, bits, least)


@pytest.mark.soak
def test_without_vision(tmp_path: Path) -> None:
    check_without_vision(models.write_seeing, tmp_path)


@pytest.mark.check
def test_what_cannot_be_exported(tmp_path: Path) -> None:
    directory = tmp_path / "model"
    models.write_seeing(directory)
    for fields, sentence in {
        ("max_soft_tokens", 1120): "max_soft_tokens 1120; it must be from 1 to 560",
        ("max_soft_tokens", True): "max_soft_tokens True; it must be from 1 to 560",
        ("max_soft_tokens", 90): "256, but a picture of max_soft_tokens 90 may have 270 patches",
        ("patch_size", 16): "makes other patches than the model reads",
        ("pooling_kernel_size", 2): "tiles of 64 pixels, but the model reads squares of 12",
        ("do_normalize", True): "do_normalize True, but only False is supported",
        ("resample", 1): "resample 1; it must be one of 2 .bilinear., 3 .bicubic",
    }.items():
        models.write_processor(directory, **dict([fields]))
        with pytest.raises(ExportError, match=sentence):
            export(directory)
        assert not (directory / "m.pte").exists()


def test_configs_are_refused() -> None:
    config = models.config().to_dict()
    vision, text = config["vision_config"], config["text_config"]
    for fields, sentence in {
        ("head_dim", 64): "head_dim 64 is not supported; supported is 16",
        ("num_key_value_heads", 1): "num_key_value_heads 1 is not supported; supported is 3",
        ("hidden_activation", "relu"): "hidden_activation 'relu' is not supported",
        ("attention_bias", True): "attention_bias True is not supported",
    }.items():
        with pytest.raises(ExportError, match=sentence):
            gemma4_sight.FAMILY.spec({**config, "vision_config": {**vision, **dict([fields])}})
    heads = {**vision, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 6}
    with pytest.raises(ExportError, match="heads of 6 numbers; they must be a multiple of 4"):
        gemma4_sight.FAMILY.spec({**config, "vision_config": heads})
    both = {**text, "use_bidirectional_attention": "vision"}
    with pytest.raises(ExportError, match="'vision' is not supported with pictures, whose rows"):
        gemma4_sight.FAMILY.spec({**config, "text_config": both})
    for token in (-1, 1 << 20):
        with pytest.raises(ExportError, match="pad_token_id is"):
            wrong = {**config, "text_config": {**text, "pad_token_id": token}}
            gemma4_sight.FAMILY.spec(wrong)


def test_fields_that_are_not_stored_are_those_of_transformers() -> None:
    sparse: Any = {"model_type": "gemma4", "text_config": {"model_type": "gemma4_text"}}
    sparse["vision_config"] = {"model_type": "gemma4_vision"}
    whole = transformers.AutoConfig.for_model(**sparse).to_dict()
    assert gemma4_sight.FAMILY.spec(sparse) == gemma4_sight.FAMILY.spec(whole)
