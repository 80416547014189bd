"""Gemma 3 with sight: rows of a picture that attend to each other both ways, with the tokens of
transformers."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import gemma_sight_models as models
from support.pictures import picture
from support.seeing_exports import (
    OPTIONS,
    TOKENS,
    answered,
    check_quantized,
    check_without_vision,
    export,
)
from support.tiers import checked, soaked_rows

from exporter.errors import ExportError
from exporter.file.pte import read_blob
from exporter.models import gemma_sight, siglip, siglip2
from exporter.seeing.picture_blob import PICTURE
from runtime import Chat, Engine, Program, Runner, RunnerError
from runtime.pictures import picture_tiles

transformers = pytest.importorskip("transformers")
Seeing = tuple[Path, Any, Path]


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory, cpp_build: Path) -> Seeing:
    directory = tmp_path_factory.mktemp("gemma3")
    model = models.write_seeing(directory)
    result = export(directory)
    vision = result.report["vision"]
    assert vision["delegation"]["calls"] == 1 and not vision["delegation"]["left"]
    assert vision["rows"] == models.ROWS
    return result.out, model, directory


def reference(model: Any, processor: Any, text: str, images: Any) -> tuple[list[int], list[float]]:
    """The tokens of transformers up to the end of a turn, and their logarithms of probability."""
    inputs = processor(text=text, images=images or None, return_tensors="pt")
    with torch.no_grad():
        generated = model.generate(
            **inputs,
            max_new_tokens=TOKENS,
            do_sample=False,
            return_dict_in_generate=True,
            output_logits=True,
        )
    tokens = generated.sequences[0, inputs["input_ids"].shape[1] :].tolist()
    ends = [tokens.index(one) for one in (models.END, models.START) if one in tokens]
    tokens = tokens[: min(ends, default=TOKENS)]
    scores = [step[0].log_softmax(-1) for step in generated.logits]
    return tokens, [float(one[token]) for one, token in zip(scores, tokens, strict=False)]


def require_answer(build: Path, pte: Path, tmp: Path, right: Any, *arguments: Any) -> None:
    command = [build / "runner", pte, "--temperature", "0", "-n", str(TOKENS), "--logprobs", "0"]
    out = tmp / "stats.json"
    done = subprocess.run([*command, "--json", out, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    given = json.loads(out.read_text())["logprobs"][: len(right[0])]
    assert [one["id"] for one in given] == right[0] and right[0]
    np.testing.assert_allclose([one["logprob"] for one in given], right[1], atol=1e-3)


def files(tmp: Path, images: list[Any]) -> list[Any]:
    arguments: list[Any] = []
    for index, image in enumerate(images):
        image.save(tmp / f"{index}.ppm")
        arguments += ["--image", tmp / f"{index}.ppm"]
    return arguments


@pytest.mark.parametrize(
    "sizes", [[], [(64, 64), (200, 20)], *checked([[(40, 30)], [(31, 90)], [(1, 1)], [(9, 60)]])]
)
def test_tokens_are_those_of_transformers(
    seeing: Seeing, cpp_build: Path, tmp_path: Path, sizes: Any
) -> None:
    pte, model, directory = seeing
    processor = models.processor_of(directory)
    images = [picture(*size) for size in sizes]
    places, arguments = models.PLACE * len(sizes), files(tmp_path, images)
    between = " and ".join([models.PLACE] * len(sizes))
    question = f"<start_of_turn>user\n{places}What is it?<end_of_turn>\n<start_of_turn>model\n"
    prompts = {between + " then B": None, f"{'long ' * 50}{places}B": None}  # over two chunks
    if sizes:
        prompts[question] = "What is it?"
    for text, prompt in prompts.items():
        right = reference(model, processor, text, images)
        for more in ([], ["--draft", "ngram"]):
            require_answer(cpp_build, pte, tmp_path, right, *arguments, *more, "-p", prompt or text)


@pytest.mark.check
@pytest.mark.parametrize(
    ("sizes", "context", "seq_len"),
    [
        ({"window": 100}, 1024, models.ROWS),  # a picture fills a step
        *soaked_rows([({"side": 64, "rows": 256, "window": 40}, 1024, 256)]),  # and a chunk
    ],
)
def test_a_step_that_a_picture_fills(
    cpp_build: Path, tmp_path: Path, sizes: Any, context: int, seq_len: int
) -> None:
    directory = tmp_path / "model"
    model = models.write_seeing(directory, **sizes)
    out = export(directory, max_context_len=context, max_seq_len=seq_len).out
    known = {name: sizes[name] for name in ("side", "rows") if name in sizes}
    text, images = f"Some {models.PLACE} or {models.PLACE}?", [picture(40, 30), picture(9, 60)]
    right = reference(model, models.processor_of(directory, **known), text, images)
    require_answer(cpp_build, out, tmp_path, right, *files(tmp_path, images), "-p", text)


def test_rows_are_those_of_transformers(seeing: Seeing) -> None:
    """And the pixels, to the bit."""
    pte, model, _ = seeing
    images = [picture(*size) for size in [(40, 30), (31, 90), (64, 64), (200, 20), (1, 1)]]
    pixels = models.picture_processor()(images, return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        right = model.model.get_image_features(pixels).pooler_output.numpy()
    blob = read_blob(pte, PICTURE)
    with Program(pte, threads=1) as forward:
        encode = forward.method("vision_encoder")
        for image, expected, rows in zip(images, pixels.numpy(), right, strict=True):
            (numbers,) = picture_tiles(blob, image)
            np.testing.assert_array_equal(numbers[0], expected)
            np.testing.assert_allclose(
                encode(numbers)[0], rows, atol=1e-4 * np.abs(right).max(), strict=False
            )


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
        for rows in (4, 256):  # of prompts in a call: fewer than a picture's, and more
            with Engine(other, sequences=3, prompt_rows=rows) as engine:
                assert [answered(engine, one) for one in asked] == alone


def test_a_part_of_a_picture_is_refused(seeing: Seeing) -> None:
    with Runner(seeing[0], threads=1) as runner:
        pieces = [("Look <start_of_image> well <start_of_image> so", True)]
        tokens = runner.encode_pieces(pieces, [picture(60, 20), picture(31, 90)])
        rows = [at for at, token in enumerate(tokens) if token < 0]
        twice = [*tokens[: rows[3]], *tokens[rows[0] :]]
        with Engine(runner, prompt_rows=4) as engine:
            asked = [tokens, tokens[: rows[-1] + 1]]  # the second ends with a picture
            together = [engine.submit(one, **OPTIONS) for one in asked]
            assert [one.text() for one in together] == [
                engine.submit(one, **OPTIONS).text() for one in asked
            ]
            for wrong in (tokens[: rows[3]], tokens[rows[3] :], tokens[: rows[-1]], twice):
                with pytest.raises(RunnerError, match="a part of a picture: give all its rows"):
                    engine.submit(wrong, **OPTIONS)


def test_a_cut_picture_is_read_anew(seeing: Seeing) -> None:
    with Runner(seeing[0], threads=1) as runner:
        parts: Any = ["Look ", {"image": picture(60, 20)}, " well"]
        right = "".join(runner.generate(parts, **OPTIONS))
        for length in (5, 12, 20, 30):
            runner.truncate(length)
            assert "".join(runner.generate(parts, **OPTIONS)) == right


@pytest.mark.soak
@pytest.mark.parametrize(("name", "bits", "least"), [(None, 8, 0.99), ("gptq4", 4, 0.9)])
def test_what_sees_is_quantized(
    cpp_build: Path, tmp_path: Path, name: str | None, bits: int, least: float
) -> None:
    check_quantized(models.write_seeing, tmp_path, name, bits, least)


@pytest.mark.check
def test_without_vision(tmp_path: Path) -> None:
    check_without_vision(models.write_seeing, tmp_path)


@pytest.mark.check
def test_what_cannot_be_exported(tmp_path: Path) -> None:
    directory = tmp_path / "model"
    models.write_seeing(directory)
    for fields, sentence in {
        ("do_pan_and_scan", True): "do_pan_and_scan True, but only False is supported",
        ("side", 64): "makes pictures of 64 pixels, but the model reads 32",
        ("resample", 7): "resample 7; it must be one of 1 .Lanczos., 2 .bilinear., 3 .bicubic",
    }.items():
        models.write_processor(directory, **dict([fields]))
        with pytest.raises(ExportError, match=sentence):
            export(directory)
    models.write_processor(directory)
    with pytest.raises(
        ExportError, match="16 rows of a picture are read in one step, but --max-seq-len 15 is less"
    ):
        export(directory, max_seq_len=15)
    assert not (directory / "m.pte").exists()


def test_configs_are_refused() -> None:
    config = models.config().to_dict()
    vision = config["vision_config"]
    for rows in (15, 1024):
        with pytest.raises(ExportError, match=f"mm_tokens_per_image is {rows}; it must be a squ"):
            gemma_sight.FAMILY.spec({**config, "mm_tokens_per_image": rows})
    with pytest.raises(ExportError, match="image_size 30 of vision_config is not a multiple of 16"):
        gemma_sight.FAMILY.spec({**config, "vision_config": {**vision, "image_size": 30}})


def test_fields_that_are_not_stored_are_those_of_transformers() -> None:
    sparse: Any = {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}}
    sparse["vision_config"] = {"model_type": "siglip_vision_model", "image_size": 256}
    whole = transformers.AutoConfig.for_model(**sparse).to_dict()
    assert gemma_sight.FAMILY.spec(sparse) == gemma_sight.FAMILY.spec(whole)


def test_the_head_that_pools_a_picture_is_not_read() -> None:
    spec: Any = None  # they are not asked
    for family in (gemma_sight.FAMILY, siglip.FAMILY, siglip2.FAMILY):
        for tower in ("vision_tower", "model.vision_tower.vision_model", "model.vision_model"):
            assert family.is_unread(spec, f"{tower}.head.attention.in_proj_weight")
        assert not family.is_unread(spec, "model.vision_tower.encoder.layers.0.mlp.fc1.weight")
        assert not family.is_unread(spec, "lm_head.weight")
