"""The type in which a file keeps keys and values: by its weights, its heads and biases of keys."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.cpu_models import CONTEXT, TINY, prepare, write
from support.decoder_specs import varied
from support.small_models import random_model

from delegates import get_delegate
from delegates.cpu import LIMITS
from delegates.limits import fewest_bits, fit_int8
from exporter.agreement import reference_logits
from exporter.models.spec import DecoderSpec
from exporter.program import capture
from quant.modules import QuantizedLinear
from quant.scheme import Scheme

SPEC = varied(TINY, num_hidden_layers=1, head_dim=32)
BIASED = varied(SPEC, attention_bias=True)
BYTES = {"int8": 1, "float16": 2, "float32": 4}


@pytest.mark.parametrize(
    ("spec", "scheme", "kept"),
    [
        (SPEC, Scheme("none"), "float32"),
        (SPEC, Scheme("rtn8"), "float16"),
        (SPEC, Scheme("rtn8", head_bits=4), "int8"),
        (SPEC, Scheme("rtn4"), "int8"),
        (varied(SPEC, head_dim=28), Scheme("rtn4"), "float16"),
        (varied(SPEC, qk_norm="heads"), Scheme("rtn4"), "int8"),
        (varied(SPEC, attention_out_bias=True), Scheme("rtn4"), "int8"),
        (BIASED, Scheme("none"), "float32"),
        (BIASED, Scheme("rtn4"), "float16"),
        (varied(BIASED, qk_norm="rows"), Scheme("rtn4"), "float16"),
        (varied(BIASED, no_rope_layers=(0,)), Scheme("rtn4"), "float16"),
    ],
)
def test_the_type_of_a_file_and_what_explain_says(
    spec: DecoderSpec, scheme: Scheme, kept: str, tmp_path: Path
) -> None:
    model = prepare(random_model(spec), scheme)
    reference = reference_logits(model, torch.arange(30), CONTEXT, scheme.name != "none")
    program = capture(model, CONTEXT, CONTEXT)
    (mixer,) = spec.attentions
    bits, fit = fewest_bits(program), fit_int8(mixer.bias, mixer.head_dim)
    (call,) = write(program, tmp_path, reference).calls
    assert call.program["cache_type"] == kept
    assert LIMITS.cached_bytes(bits, fit) == BYTES[kept]


def test_a_checkpoints_own_integers_count_as_8_bits(tmp_path: Path) -> None:
    model = prepare(random_model(SPEC), Scheme("rtn4"))
    for linear in model.modules():
        if isinstance(linear, QuantizedLinear):
            linear.weight_type = replace(linear.weight_type, levels=1)
    program = capture(model, CONTEXT, CONTEXT)
    assert fewest_bits(program) == 8
    (call,) = write(program, tmp_path, reference_logits(model, torch.arange(9), 9, True)).calls
    assert {"int4", "int8"} == {item["format"] for item in call.program["weights"]}
    assert call.program["cache_type"] == "float16"


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
