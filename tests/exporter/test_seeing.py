"""Models that see: the tokens of transformers, from files of pictures."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from support import seeing_models as models
from support.exported import Quiet
from support.pictures import picture
from support.tiers import checked, soaked_rows

from devtools.profile.load import load_profile
from devtools.profile.report import make_report
from exporter.errors import ExportError
from exporter.file.pte import read_blob
from exporter.models.siglip import patch_places
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from exporter.seeing import calibration
from exporter.seeing.calibration import PICTURES, find_pictures
from exporter.seeing.picture_blob import PICTURE
from quant.method import Method
from quant.scheme import Scheme
from runtime import Program, Runner, RunnerError
from runtime.pictures import picture_tiles

transformers = pytest.importorskip("transformers")
KINDS = ["smolvlm", "idefics3"]
TOKENS = 12


def export(directory: Path, name: str = "m.pte", **options: Any) -> Any:
    return export_model(
        ExportOptions(
            **{
                "model": str(directory),
                "out": directory / name,
                "scheme": Scheme("none"),
                "max_context_len": 1024,
                **options,
            }
        ),
        Quiet(),
    )


@pytest.fixture(scope="module", params=[*KINDS[:1], *checked(KINDS[1:])])
def exported(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cpp_build: Path
) -> tuple[Path, Any, Path]:
    if request.param == "smolvlm":
        return request.getfixturevalue("seeing_model")  # type: ignore[no-any-return]
    directory = tmp_path_factory.mktemp(request.param)
    model = models.write_seeing(directory, request.param)
    result = export(directory)
    assert result.report["vision"]["delegation"]["calls"] == 1
    assert not result.report["vision"]["delegation"]["left"]
    return result.out, model, directory


def run(
    build: Path, pte: Path, *arguments: str | Path, given: Path = Path(os.devnull)
) -> subprocess.CompletedProcess[str]:
    command = [build / "runner", pte, *arguments]
    with given.open("rb") as file:
        return subprocess.run(command, stdin=file, capture_output=True, text=True)


def answer(build: Path, pte: Path, tmp: Path, *arguments: str | Path) -> tuple[list[int], Any]:
    """The tokens of an answer, and its statistics."""
    out = tmp / "stats.json"
    options = ["--temperature", "0", "-n", str(TOKENS), "--logprobs", "0", "--json", out]
    result = run(build, pte, *options, *arguments)
    assert result.returncode == 0, result.stderr
    stats = json.loads(out.read_text())
    return [one["id"] for one in stats["logprobs"]], stats


def reference(model: Any, directory: Path, text: str, images: list[Image.Image]) -> Any:
    """Returns the tokens of transformers, and its inputs."""
    inputs = models.processor_of(directory)(text=text, images=images, return_tensors="pt")
    with torch.no_grad():
        generated = model.generate(**inputs, max_new_tokens=TOKENS, do_sample=False)
    return generated[0, inputs["input_ids"].shape[1] :].tolist(), inputs


@pytest.mark.parametrize("sizes", [[(40, 30)], [(31, 90)], [(64, 64), (200, 20)], [(1, 1)]])
def test_tokens_are_those_of_transformers(
    exported: tuple[Path, Any, Path], cpp_build: Path, tmp_path: Path, sizes: Any
) -> None:
    pte, model, directory = exported
    images = [picture(*size) for size in sizes]
    arguments: list[str | Path] = []
    for index, image in enumerate(images):
        image.save(tmp_path / f"{index}.ppm")
        arguments += ["--image", tmp_path / f"{index}.ppm"]
    question = (
        f"<|im_start|>User:{'<image>' * len(images)}What is it?<end_of_utterance>\nAssistant:"
    )
    for text, prompt in {
        question: "What is it?",  # the template's places
        "A<image>" * len(images) + "B": "A<image>" * len(images) + "B",  # the prompt's own
    }.items():
        expected, inputs = reference(model, directory, text, images)
        got, stats = answer(cpp_build, pte, tmp_path, *arguments, "-p", prompt)
        assert stats["prompt_tokens"] == inputs["input_ids"].shape[1]
        ends = expected.index(models.END) if models.END in expected else len(expected)
        assert got[:ends] == expected[:ends] and len(got) >= min(ends, TOKENS), prompt


def test_numbers_are_those_of_transformers(exported: tuple[Path, Any, Path]) -> None:
    """Of the part that sees, and of the decoder that reads its rows."""
    pte, model, directory = exported
    text = "Two <image> and <image>?"
    _, inputs = reference(model, directory, text, [picture(40, 30), picture(7, 90)])
    with torch.no_grad():
        features = model.get_image_features(
            inputs["pixel_values"], inputs["pixel_attention_mask"]
        ).pooler_output
        logits = model(**inputs).logits[0, -1].numpy()
    expected = torch.cat(list(features)).numpy()
    ids = inputs["input_ids"].numpy()
    with Program(pte, threads=1) as forward:
        encode, decode = forward.method("vision_encoder"), forward.method("text_decoder")
        tiles = inputs["pixel_values"].numpy().reshape(-1, 1, 3, models.SIDE, models.SIDE)
        rows = np.concatenate([encode(tile)[0] for tile in tiles])
        np.testing.assert_allclose(rows, expected, atol=1e-4 * np.abs(expected).max())
        hidden = np.array(forward.method("token_embedding")(ids))
        hidden[ids == models.IMAGE] = rows
        given = decode(hidden, np.array([0]))[0]
    np.testing.assert_allclose(given, logits, atol=1e-4 * np.abs(logits).max())


@pytest.mark.check
@pytest.mark.parametrize("exported", ["smolvlm"], indirect=True)
@pytest.mark.parametrize(
    ("name", "bits", "least"),
    [(None, 8, 0.999), ("gptq4", 4, 0.96), *soaked_rows([("rtn4", 4, 0.94)])],
)
def test_what_sees_is_quantized(
    exported: tuple[Path, Any, Path],
    cpp_build: Path,
    tmp_path: Path,
    name: str | None,
    bits: int,
    least: float,
) -> None:
    """In int8 unless asked; the report has its distance on pictures that are held out."""
    pte, _, directory = exported
    for index, size in enumerate([(64, 64), (31, 90), (80, 50), (40, 30), (20, 200)]):
        picture(*size).save(tmp_path / f"{index}.ppm")
    whole = export(
        directory,
        "q.pte",
        scheme=Scheme("rtn4"),
        vision_scheme=name and Scheme(name),
        calibration_images=tmp_path,
        etrecord=tmp_path / "q.etrecord",
    )
    assert (tmp_path / "q.etrecord").stat().st_size
    vision = whole.report["vision"]
    assert vision["quantization"]["bits"] == bits
    assert vision["delegation"]["calls"] == 1 and not vision["delegation"]["left"]
    tiles = picture_tiles(read_blob(pte, PICTURE), tmp_path / "3.ppm")  # the fourth is held out
    used = [tiles[-1 - index * len(tiles) // 4] for index in range(4)]
    with Program(pte, threads=1) as floats, Program(whole.out, threads=1) as integers:
        want, have = (
            np.concatenate([np.array(encode(tile)[0], float) for tile in used])
            for encode in (one.method("vision_encoder") for one in (floats, integers))
        )
    cosines = (want * have).sum(1) / np.linalg.norm(want, axis=1) / np.linalg.norm(have, axis=1)
    quality = vision["quality"]
    assert quality["rows"] == len(cosines)
    assert quality["cosine_worst"] == pytest.approx(cosines.min(), abs=1e-6)
    assert quality["cosine_mean"] == pytest.approx(cosines.mean(), abs=1e-6)
    assert quality["cosine_worst"] > least
    seen = "--image", tmp_path / "1.ppm", "-p", "Hm?", "--etdump", tmp_path / "q.etdump"
    assert answer(cpp_build, whole.out, tmp_path, *seen)[0]
    profile = make_report(load_profile(tmp_path / "q.etdump", tmp_path / "q.etrecord"), None)
    of_pictures = profile["phases"]["run vision_encoder"]
    assert of_pictures["attributed_ns"] and not of_pictures["unattributed_ns"]
    lines = " ".join(row["key"] for row in of_pictures["by"]["line"])
    assert "siglip.py" in lines, lines


@pytest.mark.parametrize("exported", ["smolvlm"], indirect=True)
def test_fewer_large_pictures_are_measured_on(
    exported: tuple[Path, Any, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, tile = read_blob(exported[0], PICTURE), 3 * models.SIDE**2
    for name in ("a", "b"):
        picture(90, 60).save(tmp_path / f"{name}.ppm")
    for numbers, count in ((1 << 24, 4), (3 * tile - 1, 2), (1, 1)):
        monkeypatch.setattr(calibration, "_MOST_NUMBERS", numbers)
        assert len(calibration.read_tiles(tmp_path, settings, False).measured) == count


@pytest.mark.parametrize("exported", ["smolvlm"], indirect=True)
def test_pictures_to_calibrate_on_are_refused(
    exported: tuple[Path, Any, Path], tmp_path: Path
) -> None:
    _, _, directory = exported
    few, cut = tmp_path / "few", tmp_path / "cut"
    for made in (few, cut):
        made.mkdir()
        picture(9, 9).save(made / "a.ppm")
    (cut / "b.PPM").write_bytes((cut / "a.ppm").read_bytes()[:-1])
    (few / "b.txt").write_text("no picture")
    images, scheme = {"calibration_images": few}, {"vision_scheme": Scheme("rtn8")}
    for sentence, options in {
        "few has 1 picture, but 2 at least are needed": images,
        "cut: b.PPM: the picture is cut off": {"calibration_images": cut},
        "b.txt is not a directory": {"calibration_images": few / "b.txt"},
        "few has no effect on floats": {**images, "vision_scheme": Scheme("none")},
        "--calibration-images .* as the file will not see": {**images, "vision": False},
        "--vision-quant rtn8 has no effect": {**scheme, "vision": False},
        "--vision-quant hqq4 is not supported for what sees; use one of none, rtn8": {
            "vision_scheme": Scheme("hqq4")
        },
    }.items():
        with pytest.raises(ExportError, match=sentence):
            export(directory, "r.pte", **{"scheme": Scheme("rtn4"), **options})
    assert not (directory / "r.pte").exists()


def test_the_pictures_of_the_package_are_small_and_named() -> None:
    paths = find_pictures(PICTURES)
    sources = (PICTURES / "SOURCES.md").read_text()
    assert len(paths) == 8
    for path in paths:
        assert path.stat().st_size <= 30_000 and f"`{path.name}`" in sources


@pytest.mark.parametrize("exported", ["smolvlm"], indirect=True)
def test_without_vision(exported: tuple[Path, Any, Path], cpp_build: Path, tmp_path: Path) -> None:
    """The language model alone, which says what it says beside what sees."""
    pte, _, directory = exported
    blind = export(directory, "blind.pte", vision=False)
    assert "vision" not in blind.report
    picture(9, 9).save(tmp_path / "x.ppm")
    refused = run(cpp_build, blind.out, "--image", tmp_path / "x.ppm", "-p", "Hm?")
    assert refused.returncode == 2 and "does not see: leave the pictures out" in refused.stderr
    prompt = ["-p", "Hello", "-n", "9", "--temperature", "0"]
    texts = [run(cpp_build, file, *prompt).stdout for file in (blind.out, pte)]
    assert texts[0] == texts[1]


def test_a_picture_of_standard_input(
    exported: tuple[Path, Any, Path], cpp_build: Path, tmp_path: Path
) -> None:
    image = tmp_path / "x.ppm"
    picture(40, 30).save(image)
    asked = "-p", "Hm?", "-n", "5", "--temperature", "0"
    named = run(cpp_build, exported[0], "--image", image, *asked)
    piped = run(cpp_build, exported[0], "--image", "-", *asked, given=image)
    assert named.returncode == 0 and piped.stdout == named.stdout, piped.stderr


def test_refusals(exported: tuple[Path, Any, Path], cpp_build: Path, tmp_path: Path) -> None:
    pte, _, _ = exported
    image = tmp_path / "x.ppm"
    picture(40, 30).save(image)
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("a text, and no picture")
    many = [part for _ in range(30) for part in ("--image", image)]
    refused: dict[str, list[str | Path]] = {
        "has 1 place <image>, but there are 2 pictures": [*many[:4], "-p", "a<image>"],
        "has 2 places <image>, but there is 1 picture": [*many[:2], "-p", "<image>a<image>"],
        "positions, but the model's context holds 1024": [*many, "-p", "all of them?"],
        "is empty: name a picture": ["--image", tmp_path / "empty", "-p", "a"],
        "is a directory: name a picture": ["--image", tmp_path, "-p", "a"],
        "cannot read": ["--image", tmp_path / "nothing", "-p", "a"],
        "is not a picture that is read": ["--image", tmp_path / "text", "-p", "a"],
        "--image needs -p TEXT": ["--image", image, "--chat"],
        "standard input, which is read once": [*2 * ("--image", "-"), "-p", "a"],
        "-f - read standard input both": ["--image", "-", "-f", "-"],
        "standard input is empty: pipe a picture": ["--image", "-", "-p", "a"],
    }
    for sentence, arguments in refused.items():
        result = run(cpp_build, pte, *arguments)
        assert result.returncode in (1, 2) and sentence in result.stderr, (sentence, result.stderr)
        assert not result.stdout


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    models.write_seeing(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    processor = tmp_path / "preprocessor_config.json"
    known = json.loads(processor.read_text())
    refused = {
        "vision_config is 7; it must be an object": ({"vision_config": 7}, {}),
        "image_token_id is 4000, but vocab_size": ({"image_token_id": 4000}, {}),
        "makes tiles of 36 pixels, but the model reads squares of 16": (
            {},
            {"max_image_size": {"longest_edge": 36}},
        ),
        "do_resize False": ({}, {"do_resize": False}),
    }
    for sentence, (changed, settings) in refused.items():
        (tmp_path / "config.json").write_text(json.dumps({**config, **changed}))
        processor.write_text(json.dumps({**known, **settings}))
        with pytest.raises(ExportError, match=sentence):
            export(tmp_path)
        assert not (tmp_path / "m.pte").exists()
    (tmp_path / "config.json").write_text(json.dumps(config))
    processor.write_text(json.dumps(known))
    rotated = Scheme("rtn4", method=Method(rounding="nearest", rotation="hadamard", descent=0))
    with pytest.raises(ExportError, match="rotation=hadamard rotates what the layers read"):
        export(tmp_path, scheme=rotated)


def asked(parts: list[str]) -> str:
    """A question in transformers' form of the model's template, which begins with texts apart."""
    space = "" if parts[0] == "<image>" else " "
    return f"<|im_start|>User:{space}{''.join(parts)}<end_of_utterance>\nAssistant:"


def test_python_asks_about_pictures(
    exported: tuple[Path, Any, Path], cpp_build: Path, tmp_path: Path
) -> None:
    pte, model, directory = exported
    first, second = picture(40, 30), picture(30, 90)
    first.save(tmp_path / "1.png")
    data = (tmp_path / "1.png").read_bytes()
    options: Any = {"max_new_tokens": TOKENS, "temperature": 0, "logprobs": 0}
    place = "<image>"

    def ids(runner: Runner, parts: Any) -> list[int]:
        list(runner.generate(parts, **options))
        return [one.token for one in runner.logprobs]

    def expected(parts: list[str], images: list[Image.Image]) -> list[int]:
        tokens, _ = reference(model, directory, asked(parts), images)
        return tokens[: tokens.index(models.END)] if models.END in tokens else tokens

    with Runner(pte, threads=1) as runner:
        question = expected([place, "What?"], [first])
        for image in (tmp_path / "1.png", data, first, np.asarray(first)):
            assert ids(runner, [{"image": image}, "What?"])[: len(question)] == question
        # An equal picture and text before are not computed again; another picture is.
        other = expected([place, "Where?"], [first])
        assert ids(runner, [{"image": data}, "Where?"])[: len(other)] == other
        rows = runner.stats["cached_tokens"]
        assert rows > models.ROWS * 7
        changed = expected([place, "Where?"], [second])
        assert ids(runner, [{"image": second}, "Where?"])[: len(changed)] == changed
        assert runner.stats["cached_tokens"] < rows / 2
        mixed = expected(["One ", place, " or ", place, "?"], [second, first])
        parts = ["One ", {"image": second}, " or ", {"image": first}, "?"]
        assert ids(runner, parts)[: len(mixed)] == mixed
        text = list(runner.generate("Hello", **options))
        with Runner(pte, threads=1) as fresh:
            assert list(fresh.generate("Hello", **options)) == text
        os.mkfifo(tmp_path / "pipe")
        for part, sentence in {
            7: "a part of the prompt is 7",
            "a picture": "is an array of float64",
            "nothing": "cannot read the picture",
            "pipe": "is not a file: name one, or pass its bytes",
            "zero": "contains a zero byte",
            "palette": "the picture's mode is P, but must be RGB or L",
            "bytes": "the picture is not a picture that is read",
        }.items():
            images: Any = {
                "a picture": np.zeros((3, 3, 3)),
                "nothing": tmp_path / "nothing",
                "pipe": tmp_path / "pipe",
                "zero": "a\0b",
                "palette": first.convert("P"),
                "bytes": b"no picture, but text",
            }
            wrong = part if part == 7 else {"image": images[part]}
            with pytest.raises(RunnerError, match=sentence):
                list(runner.generate([wrong, "What?"], **options))
        assert ids(runner, [{"image": data}, "What?"])[: len(question)] == question


@pytest.mark.parametrize(("trained", "count"), [(27, 27), (26, 26), (32, 32), (14, 7), (7, 20)])
def test_places_of_patches_are_those_of_transformers(trained: int, count: int) -> None:
    """Rounding in float32 decides on the borders between places."""
    from transformers.models.smolvlm.modeling_smolvlm import SmolVLMVisionEmbeddings

    config = transformers.SmolVLMConfig(
        vision_config={"hidden_size": 1, "image_size": 2 * trained, "patch_size": 2}
    )
    embeddings = SmolVLMVisionEmbeddings(config.vision_config)
    embeddings.position_embedding.weight.data = torch.arange(float(trained**2))[:, None]
    embeddings.patch_embedding.weight.data.zero_()
    embeddings.patch_embedding.bias.data.zero_()
    pixels = torch.zeros(1, 3, 2 * count, 2 * count)
    with torch.no_grad():
        places = embeddings(pixels, torch.ones(1, count, count, dtype=torch.bool))
    assert places.reshape(-1).long().tolist() == patch_places(trained, count).tolist()
