"""The type in which a file keeps keys and values: by its weights, its heads and biases of keys."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.cpu_models import CONTEXT, TINY, LoweredModel, prepare, write
from support.decoder_specs import varied
from support.small_models import random_model
from support.tiers import checked, checked_rows
from torch import nn

from delegates import get_delegate, load_program
from delegates.cpu import LIMITS
from exporter.capture.program import capture
from exporter.file.agreement import compare, reference_logits
from exporter.models.spec import DecoderSpec
from exporter.plan.cache_type import as_cached, cached_bytes
from exporter.plan.plan import empty_model
from quant.scheme import HEAD_PART, KEEP, Scheme
from quant.weight_type import WeightType

SPEC = varied(TINY, num_hidden_layers=1, head_dim=32)
EMPTY = empty_model(SPEC)
BIASED = varied(SPEC, attention_bias=True)
(_LAYER,) = SPEC.layers
CAPPED = replace(
    SPEC,
    layers=(replace(_LAYER, mixer=replace(_LAYER.attention, window=8, soft_cap=3.0)),),
)
BYTES = {"int8": 1, "float16": 2, "float32": 4}


def written(spec: DecoderSpec, scheme: Scheme, directory: Path) -> LoweredModel:
    model = prepare(random_model(spec, 1), scheme)
    reference = reference_logits(model, torch.arange(30), CONTEXT, scheme.name != "none")
    return write(capture(model, CONTEXT, CONTEXT), directory, reference)


@pytest.mark.parametrize(
    ("spec", "scheme", "kept"),
    [
        (SPEC, Scheme("none"), "float32"),
        (SPEC, Scheme("rtn8"), "float16"),
        (SPEC, Scheme("rtn4"), "int8"),
        *checked_rows(
            [
                (varied(SPEC, head_dim=28), Scheme("rtn4"), "float16"),
                (BIASED, Scheme("rtn4"), "float16"),
                (SPEC, Scheme("rtn8", head_bits=4), "int8"),
                (varied(SPEC, attention_out_bias=True), Scheme("rtn4"), "int8"),
                (varied(SPEC, qk_norm="heads"), Scheme("rtn4"), "int8"),
                (BIASED, Scheme("none"), "float32"),
                (varied(BIASED, qk_norm="rows"), Scheme("rtn4"), "float16"),
                (varied(BIASED, no_rope_layers=(0,)), Scheme("rtn4"), "float16"),
            ]
        ),
    ],
)
def test_the_type_of_a_file_and_what_explain_says(
    spec: DecoderSpec, scheme: Scheme, kept: str, tmp_path: Path
) -> None:
    item_bytes = cached_bytes(empty_model(spec), scheme, LIMITS)
    assert item_bytes == BYTES[kept]
    (call,) = written(as_cached(spec, item_bytes), scheme, tmp_path).calls
    assert call.program["cache_type"] == kept


def test_a_checkpoints_own_integers_count_as_8_bits() -> None:
    types = {
        f"model.layers.0.{part}": WeightType(4, 32, 1)
        for part in ("self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj")
    }
    assert cached_bytes(EMPTY, Scheme(KEEP).with_types(types), LIMITS) == BYTES["float16"]
    assert cached_bytes(EMPTY, Scheme("rtn4"), LIMITS) == BYTES["int8"]


def test_the_narrowest_weight_decides() -> None:
    wide = {HEAD_PART: WeightType(6, 32, 2)}
    assert cached_bytes(EMPTY, Scheme("gptq4").with_types(wide), LIMITS) == BYTES["int8"]
    assert cached_bytes(EMPTY, Scheme("rtn8"), LIMITS) == BYTES["float16"]
    assert cached_bytes(EMPTY, replace(Scheme("rtn8"), types=tuple(wide.items())), LIMITS) == 1


@pytest.mark.parametrize(
    "spec",
    [
        SPEC,
        varied(SPEC, qk_norm="heads"),
        *checked([varied(SPEC, head_dim=80), varied(SPEC, head_dim=36), CAPPED]),
    ],
)
def test_the_model_rounds_heads_as_the_file_does(
    spec: DecoderSpec, tmp_path: Path, cpp_build: Path
) -> None:
    """Between float linears, which hide nothing; only those that are no `nn.Linear` count as
    quantized."""
    model = random_model(spec.with_int8_heads(), 1)
    attention = model.get_submodule("model.layers.0.self_attn")
    attention.q_proj = nn.Sequential(attention.get_submodule("q_proj"))
    tokens = torch.arange(40)
    reference = reference_logits(model, tokens, CONTEXT, False)
    lowered = write(capture(model, CONTEXT, CONTEXT), tmp_path, reference)
    assert lowered.calls[0].program["cache_type"] == "int8"
    step = load_program(lowered.lowered.report, lowered.path)
    assert step is not None
    assert compare(reference, step).error < 1e-4  # the softmax's weights have 14 bits
    floats = reference_logits(random_model(spec, 1), tokens, CONTEXT, False)
    assert compare(floats, step).error > 2e-3


@pytest.mark.parametrize(
    ("delegate", "bits", "size"),
    [
        ("mps", 4, 2),
        ("mps", 32, 4),
        ("xnnpack", 4, 4),
        ("coreml", 32, 2),
        ("qnn", 4, 2),
        ("cpu,xnnpack", 4, 1),
        ("coreml,cpu", 4, 2),
    ],
)
def test_bytes_of_other_delegates(delegate: str, bits: int, size: int) -> None:
    assert get_delegate(delegate).LIMITS.cached_bytes(bits, True) == size
