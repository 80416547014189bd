"""A Whisper for ExecuTorch's own Seq2SeqRunner: by its calls, the tokens of transformers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from support import hearing_models as models
from support.exported import Quiet
from support.hearing import features_of, run, spoken, write_wav
from support.moonshine_models import write_moonshine
from torch import Tensor

from delegates.executorch_runtime import open_module
from exporter.errors import ExportError
from exporter.hearing.pipeline import (
    HearingOptions,
    export_hearing,
    load,
    open_whisper,
    stock_methods_of,
)
from exporter.hearing.transcription import read_transcription
from quant.scheme import Scheme

pytest.importorskip("transformers")

Call = Callable[[Sequence[Tensor], str], Sequence[Tensor]]


def write_plain(directory: Path, **fields: Any) -> Any:
    """A model that never writes tokens behind that of the end, and knows no other rule."""
    model = models.write_whisper(directory, languages=False, **fields)
    behind = list(range(models.END + 1, models.VOCABULARY))
    model.generation_config.update(suppress_tokens=behind, begin_suppress_tokens=None)
    return model


def check_tokens(call: Call, model: Any) -> None:
    """Two sounds in turn: nothing of the first may stay."""
    for pitch in (500, 1200):
        features = features_of(spoken(1.3, pitch), models.WINDOW)
        (window,) = call([features], "encoder")
        tokens, place = [models.START, models.NO_TIMESTAMPS], 0
        while len(tokens) < 30 and tokens[-1] != models.END:
            step = torch.tensor([[tokens[place]]]), window, torch.tensor([place])
            (logits,) = call(step, "text_decoder")
            assert logits.shape == (1, 1, models.VOCABULARY)
            place += 1
            if place == len(tokens):
                tokens.append(int(logits[0, 0, : models.END + 1].argmax()))
        expected = model.generate(features, do_sample=False)[0].tolist()
        assert [token for token in tokens if token not in models.SPECIALS] == [
            token for token in expected if token not in models.SPECIALS
        ]


def test_methods(tmp_path: Path) -> None:
    model, checkpoint = write_plain(tmp_path), open_whisper(tmp_path)
    settings = read_transcription(tmp_path, checkpoint.config)
    methods = stock_methods_of(load(checkpoint), checkpoint.config, settings)

    def call(inputs: Sequence[Tensor], name: str) -> Sequence[Tensor]:
        with torch.no_grad():
            return [methods[name].module(*inputs)]

    check_tokens(call, model)


def test_other_models_are_refused(tmp_path: Path) -> None:
    write_moonshine(tmp_path)
    options = HearingOptions(tmp_path, tmp_path / "w.pte", delegate="xnnpack")
    with pytest.raises(ExportError, match="xnnpack supports no moonshine yet"):
        export_hearing(options, Quiet())


@pytest.mark.soak
@pytest.mark.parametrize("name", ["none", "rtn8"])
def test_stock_runtime(name: str, cpp_build: Path, tmp_path: Path) -> None:
    model = write_plain(tmp_path, encoder_layers=1, decoder_layers=1)
    options = HearingOptions(tmp_path, tmp_path / "w.pte", Scheme(name), delegate="xnnpack")
    result = export_hearing(options, Quiet())
    check_tokens(open_module(result.out), model)
    refused = run(cpp_build, result.out, "--audio", write_wav(tmp_path / "x.wav", spoken(1, 500)))
    assert refused.returncode == 2 and "is for ExecuTorch's own Seq2SeqRunner" in refused.stderr
