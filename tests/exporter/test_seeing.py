"""Models that see: the tokens of transformers, from files of pictures."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from support import seeing_models as models
from support.exported import Quiet

from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme

transformers = pytest.importorskip("transformers")
KINDS = ["smolvlm", "idefics3"]
TOKENS = 12


def picture(width: int, height: int) -> Image.Image:
    random = np.random.default_rng(width * 10007 + height)
    values = random.integers(0, 256, (height // 7 + 1, width // 7 + 1, 3)).astype(np.uint8)
    return Image.fromarray(values).resize((width, height), Image.Resampling.BICUBIC)


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


@pytest.fixture(scope="module", params=KINDS)
def exported(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cpp_build: Path
) -> tuple[Path, Any, Path]:
    directory = tmp_path_factory.mktemp(request.param)
    model = models.write_seeing(directory, request.param)
    result = export(directory)
    assert result.report["vision"]["delegation"]["calls"] == 1
    assert not result.report["vision"]["delegation"]["left"]
    return result.out, model, directory


def run(build: Path, pte: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [build / "runner", pte, *arguments]
    return subprocess.run(command, capture_output=True, text=True)


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
