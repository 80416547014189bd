"""A file by XNNPACK in stock ExecuTorch's own runner of pictures among text."""

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import torch
from support import seeing_models as models
from support.exported import Quiet
from support.pictures import picture

from exporter.errors import ExportError
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme
from runtime import Runner, RunnerError

pytestmark = pytest.mark.check

pytest.importorskip("transformers")
TOKENS = 10


def export(directory: Path, **options: Any) -> Any:
    known = {"scheme": Scheme("none"), "max_context_len": 1024, "max_seq_len": 256, **options}
    out = directory / "m.pte"
    return export_model(ExportOptions(str(directory), out, delegate="xnnpack", **known), Quiet())


def write_ascii(directory: Path) -> Any:
    """A model that says ASCII alone: the runner hands each token to Python as text."""
    model = models.write_seeing(directory)
    hidden = [token for token, text in enumerate(models.alphabet()) if not text.isascii()]
    with torch.no_grad():
        model.lm_head.weight[[*hidden, *range(models.BYTES - 1, models.VOCABULARY)]] = 0
    model.save_pretrained(directory)
    return model


def test_stock_runs_pictures_among_text(tmp_path: Path) -> None:
    """With the tokens of transformers; our runner refuses a picture, and runs the text."""
    import executorch.kernels.quantized  # noqa: F401  (registers its kernels)
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401
    from executorch.extension.llm.runner import (
        GenerationConfig,
        MultimodalRunner,
        make_image_input,
        make_token_input,
    )

    model = write_ascii(tmp_path)
    result = export(tmp_path)
    left = result.report["vision"]["delegation"]["left"]
    assert not any(name in left for name in ("linear", "addmm", "mm", "bmm", "convolution")), left
    images = [picture(64, 64), picture(90, 31)]
    inputs = models.processor_of(tmp_path)(
        text="A<image>B<image> then", images=images, return_tensors="pt"
    )
    with torch.no_grad():
        right = model.generate(**inputs, max_new_tokens=TOKENS, do_sample=False)
    tiles = iter(inputs["pixel_values"].flatten(0, 1).split(1))
    given: list[Any] = []
    text = inputs["input_ids"][0].tolist()
    for is_row, run in groupby(text, lambda token: token == models.IMAGE):
        tokens = list(run)
        if is_row:
            count = len(tokens) // models.ROWS
            given += [make_image_input(next(tiles).clone()) for _ in range(count)]
        else:
            given.append(make_token_input(tokens))
    config = GenerationConfig(max_new_tokens=TOKENS, temperature=0.0, echo=False)
    told: list[str] = []
    runner = MultimodalRunner(str(result.out), str(tmp_path / "tokenizer.json"))
    runner.generate(given, config, token_callback=told.append)
    answer = right[0, len(text) :].tolist()
    assert told == [models.alphabet()[token] for token in answer] and len(set(told)) > 2
    with Runner(result.out, threads=1) as ours:
        assert list(ours.generate("A text", max_new_tokens=3, temperature=0))
        with pytest.raises(RunnerError, match="does not see: leave the pictures out"):
            list(ours.generate([{"image": images[0]}, "A picture"]))
        with pytest.raises(RunnerError, match="does not see: give it one text"):
            list(ours.generate(["A text"]))


def test_what_sees_is_stored_in_int8(tmp_path: Path) -> None:
    models.write_seeing(tmp_path)
    vision = export(tmp_path, scheme=Scheme("rtn4")).report["vision"]
    assert vision["quantization"]["bits"] == 8 and vision["quality"]["cosine_worst"] > 0.99
    assert vision["delegation"]["calls"] > 0


def test_sight_that_stock_cannot_run_is_left_out(tmp_path: Path) -> None:
    """Of pictures of any size, or whose rows attend both ways: the file is the text's, as with
    --no-vision."""
    from support import gemma_sight_models

    gemma_sight_models.write_seeing(tmp_path)
    bytes_of = [export(tmp_path, vision=vision).out.read_bytes() for vision in (True, False)]
    assert bytes_of[0] == bytes_of[1]
    with pytest.raises(ExportError, match="has no effect, as the file will not see"):
        export(tmp_path, vision_scheme=Scheme("rtn8"))
