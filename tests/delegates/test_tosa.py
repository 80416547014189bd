"""TOSA: what Arm's reference model makes of the file is what the model computes."""

import importlib.util
from pathlib import Path

import pytest
import torch
from support.decoder_specs import SMALL, varied
from support.exported import Quiet, feed
from support.small_models import quantized_model, random_model

from delegates import DelegateError
from delegates.tosa import load, lower
from exporter.capture.program import capture
from exporter.models.decoder import CausalLM
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme

CONTEXT = 24
TOLERANCE = 1e-5  # float32 on both sides: sums in another order

with_tools = pytest.mark.skipif(
    importlib.util.find_spec("tosa_serializer") is None,
    reason="Arm's tosa-tools is not installed: pip install --no-deps tosa-tools==2026.5.0",
)


def agrees(model: CausalLM, path: Path) -> bool:
    """One token a call until the cache is full, through the caches that the file's plan keeps."""
    lowered = lower(capture(model, CONTEXT, 1), {}, {}, with_etrecord=False)
    assert lowered.report.calls == 1
    assert lowered.report.linears == lowered.report.linears_delegated > 0
    with open(path, "wb") as file:
        lowered.program.write_to_file(file)
    step = load(path)
    assert step is not None
    tokens = torch.randint(96, (CONTEXT,), generator=torch.Generator().manual_seed(3))
    model.setup_cache(CONTEXT)
    want = feed(model, tokens, [1] * CONTEXT)
    return (want - feed(step, tokens, [1] * CONTEXT)).norm() < TOLERANCE * want.norm()


@pytest.mark.soak
@with_tools
def test_a_decoder_block(tmp_path: Path) -> None:
    config = varied(SMALL, attention_bias=True, qk_norm="heads")
    assert agrees(random_model(config), tmp_path / "block.pte")


@pytest.mark.soak
@with_tools
def test_a_small_complete_model(tmp_path: Path) -> None:
    config = varied(SMALL, num_hidden_layers=1, num_key_value_heads=4, tie_word_embeddings=False)
    assert agrees(random_model(config), tmp_path / "model.pte")


@with_tools
@pytest.mark.soak
def test_stories_through_the_complete_pipeline(shared_data: Path, tmp_path: Path) -> None:
    options = ExportOptions(
        model=str(shared_data / "stories260K"),
        out=tmp_path / "stories.pte",
        scheme=Scheme("none"),
        calibration=shared_data / "text" / "tinystories_calibration.txt",
        max_context_len=64,
        max_seq_len=1,
        delegate="tosa",
    )
    result = export_model(options, Quiet())
    assert result.delegation.calls == 1
    assert result.agreement is not None and result.agreement.error < TOLERANCE


def refusal(model: CausalLM, seq_len: int) -> str:
    with pytest.raises(DelegateError) as refused:
        lower(capture(model, CONTEXT, seq_len), {}, {}, with_etrecord=False)
    return str(refused.value)


def test_without_arms_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert refusal(random_model(SMALL), 1) == (
        "Arm's tosa-tools is not installed, and the tosa delegate needs it: pip install ml_dtypes "
        "&& pip install --no-deps tosa-tools==2026.5.0"
    )


@with_tools
def test_calls_of_several_lengths() -> None:
    assert refusal(random_model(SMALL), 8) == (
        "A tosa program has fixed shapes, but this one has calls of 1 to 8 tokens: export with "
        "--max-seq-len 1."
    )


@with_tools
def test_quantized_weights() -> None:
    assert refusal(quantized_model(random_model(SMALL), Scheme("rtn4")), 1) == (
        "tosa supports weights of 32 bits, but these have 4: export with --quant none."
    )
