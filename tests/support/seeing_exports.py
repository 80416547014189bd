"""What is exported of each family that sees, and checked alike."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.exported import Quiet
from support.pictures import picture

from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme
from runtime import Engine, Runner, ask

TOKENS = 10
OPTIONS: Any = {"max_new_tokens": TOKENS, "temperature": 0, "logprobs": 0}
Write = Callable[..., object]  # a model, into a directory


def export(directory: Path, name: str = "m.pte", **options: Any) -> Any:
    known = {"scheme": Scheme("none"), "max_context_len": 1024, **options}
    return export_model(ExportOptions(str(directory), out=directory / name, **known), Quiet())


def answered(engine: Engine, parts: list[Any]) -> str:
    content = [
        {"type": "text", "text": one} if isinstance(one, str) else {"type": "image", **one}
        for one in parts
    ]
    return ask(engine, [{"role": "user", "content": content}], **OPTIONS).text


def check_quantized(
    write: Write, folder: Path, name: str | None, bits: int, least: float, longest: int = 100
) -> None:
    """Exports what sees in a scheme (None: the default), calibrated on pictures; it answers.

    Args:
        least: of the worst cosine.
        longest: side of a picture, in pixels.
    """
    for index, size in enumerate([(64, 64), (31, 90), (80, 50), (40, 30), (20, longest)]):
        picture(*size).save(folder / f"{index}.ppm")
    write(folder / "model", factor=1)
    whole = export(
        folder / "model",
        "q.pte",
        scheme=Scheme("rtn4"),
        vision_scheme=name and Scheme(name),
        calibration_images=folder,
    )
    vision = whole.report["vision"]
    assert vision["quantization"]["bits"] == bits
    assert vision["delegation"]["calls"] == 1 and not vision["delegation"]["left"]
    assert least < vision["quality"]["cosine_worst"] < 1
    with Runner(whole.out, threads=1) as runner:
        assert list(runner.generate([{"image": folder / "1.ppm"}, "Hm?"], **OPTIONS))


def check_without_vision(write: Write, folder: Path) -> None:
    """The file of a directory that tells of nothing that sees, byte for byte."""
    seeing, blind = folder / "a" / "model", folder / "b" / "model"
    write(seeing)
    shutil.copytree(seeing, blind)
    (blind / "preprocessor_config.json").unlink()
    config = json.loads((seeing / "config.json").read_text())
    (blind / "config.json").write_text(json.dumps({**config, "vision_config": None}))
    files = [export(seeing, vision=False), export(blind)]
    assert files[0].report["model"]["left_out"] == files[1].report["model"]["left_out"]
    assert files[0].out.read_bytes() == files[1].out.read_bytes()
