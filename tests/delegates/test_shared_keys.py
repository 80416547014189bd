"""Layers that attend to the keys and values of others: what delegates make of them, whatever the
calls."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.cpu_models import prepare, write
from support.exported import feed
from support.op_list import read_calls
from support.small_models import random_model
from torch import Tensor

from delegates import cpu, get_delegate, xnnpack
from delegates.errors import DelegateError
from delegates.needs import needs_of_program
from delegates.op_list.graph import Constants
from delegates.op_list.ops import SharedAttention, Values
from delegates.op_list.partition import find_calls
from devtools.report.op_list import read_op_list
from exporter.capture.program import capture
from exporter.file.agreement import compare, reference_logits
from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec
from exporter.plan.cache_type import cached_bytes
from exporter.plan.kv_caches import kv_caches
from exporter.plan.plan import empty_model
from quant.scheme import Scheme

CONTEXT, CALL = 300, 40  # the window's caches are rings of 128 positions
LENGTHS = [40, 1, 39, 7, 1, 1, 40, 40, 40, 13, 40, 37, 1]
FIELDS: dict[str, Any] = {
    "model_type": "gemma4_text",
    "vocab_size": 90,
    "hidden_size": 72,
    "intermediate_size": 96,
    "num_hidden_layers": 5,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]
    + ["sliding_attention", "full_attention"],
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "global_head_dim": 16,
    "sliding_window": 20,
    "num_kv_shared_layers": 2,
    "use_double_wide_mlp": True,
    "vocab_size_per_layer_input": 95,
    "hidden_size_per_layer_input": 20,
    "final_logit_softcapping": 30.0,
    "hidden_activation": "silu",  # which XNNPACK computes exactly
    "max_position_embeddings": CONTEXT,
    "bos_token_id": None,
    "eos_token_id": None,
}
TOKENS = torch.randint(90, (CONTEXT,), generator=torch.Generator().manual_seed(2))


def model() -> CausalLM:
    return random_model(decoder_spec(FIELDS).for_context(CONTEXT))


@pytest.fixture(scope="module")
def wanted() -> Tensor:
    """Eager's logits after every token, without a cache."""
    with torch.no_grad():
        return model().logits(TOKENS[None])[0]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plain = model()
    reference = reference_logits(plain, TOKENS, CALL, False)
    found = write(capture(plain, CONTEXT, CALL), tmp_path_factory.mktemp("shared"), reference)
    assert (found.lowered.report.calls, found.lowered.report.left) == (1, {})
    return found.path


@pytest.mark.check
def test_the_file_says_what_eager_says(path: Path, wanted: Tensor, cpp_build: Path) -> None:
    step = cpu.load(path)
    assert step is not None
    ends = torch.tensor(LENGTHS).cumsum(0) - 1
    found = feed(step, TOKENS, LENGTHS)
    assert (found - wanted[ends]).abs().max() < 2e-5 * wanted.abs().max()


@pytest.mark.check
def test_numpy_reads_the_op_list_alike(path: Path, wanted: Tensor, tmp_path: Path) -> None:
    (call,) = read_calls(path, tmp_path)
    found = feed(call.step, TOKENS[:120], [40, 40, 39, 1])
    assert (found - wanted[[39, 79, 118, 119]]).abs().max() < 2e-5 * wanted.abs().max()


@pytest.mark.check
def test_only_layers_with_keys_of_their_own_have_caches(path: Path, tmp_path: Path) -> None:
    (call,) = read_calls(path, tmp_path)
    assert [cache["name"] for cache in call.program["caches"]] == [
        f"model.layers.{index}.self_attn" for index in range(3)
    ]
    shared = [op["kind"] for op in call.program["ops"] if op["kind_type"] == "SharedAttention"]
    assert [kind["cache"] for kind in shared] == [2, 1]
    assert all("query_norm" in kind and "cosines" in kind for kind in shared)
    kept = kv_caches(decoder_spec(FIELDS).for_context(CONTEXT), cpu.LIMITS, 4, CONTEXT, CALL)
    assert [(each.window, each.layers, each.positions) for each in kept] == [
        (20, 2, 128),
        (None, 1, 300),
    ]
    op_list = read_op_list((tmp_path / "call.bin").read_bytes(), {})
    assert op_list is not None
    assert op_list.cache_bytes == sum(each.size for each in kept)


@pytest.mark.check
def test_integers_agree_within_rounding(tmp_path: Path, cpp_build: Path) -> None:
    quantized = prepare(model(), Scheme("rtn4"))
    reference = reference_logits(quantized, TOKENS, CALL, True)
    found = write(capture(quantized, CONTEXT, CALL), tmp_path, reference)
    assert (found.lowered.report.calls, found.lowered.report.left) == (1, {})
    step = cpu.load(found.path)
    assert step is not None
    agreement = compare(reference, step)
    assert agreement.error <= agreement.tolerance


@pytest.mark.soak
def test_shared_keys_in_int8_agree_too(tmp_path: Path, cpp_build: Path) -> None:
    spec = decoder_spec({**FIELDS, "head_dim": 32, "global_head_dim": 64}).for_context(CONTEXT)
    assert cached_bytes(empty_model(spec), Scheme("rtn4"), cpu.LIMITS) == 1
    quantized = prepare(random_model(spec.with_int8_heads()), Scheme("rtn4"))
    reference = reference_logits(quantized, TOKENS, CALL, True)
    found = write(capture(quantized, CONTEXT, CALL), tmp_path, reference)
    assert [call.program["cache_type"] for call in found.calls] == ["int8"]
    step = cpu.load(found.path)
    assert step is not None
    agreement = compare(reference, step)
    assert agreement.error <= agreement.tolerance


@pytest.mark.soak
def test_xnnpack_reads_the_other_layers_cache(
    wanted: Tensor, tmp_path: Path, cpp_build: Path
) -> None:
    lowered = xnnpack.lower(capture(model(), CONTEXT, CALL), {}, {}, with_etrecord=False)
    with open(tmp_path / "model.pte", "wb") as file:
        lowered.program.write_to_file(file)
    step = xnnpack.load(tmp_path / "model.pte")
    assert step is not None
    found = feed(step, TOKENS[:121], [40, 40, 40, 1])
    assert (found - wanted[[39, 79, 119, 120]]).abs().max() < 1e-4 * wanted.abs().max()


@pytest.mark.check
@pytest.mark.parametrize("name", ["mlx", "coreml", "mps", "qnn", "tosa", "vulkan"])
def test_the_others_say_what_they_lack(name: str) -> None:
    program = capture(model(), CONTEXT, CALL)
    limits = get_delegate(name).LIMITS
    said = f"{name} does not support attention to the keys and values of another layer"
    with pytest.raises(DelegateError, match=rf"{said} \(exporter/models/attention.py:\d+\)"):
        limits.check(needs_of_program(program))


def test_keys_that_no_attention_has_written_are_refused() -> None:
    class Reader(torch.nn.Module):
        def forward(self, query: Tensor, keys: Tensor, start_pos: Tensor) -> Tensor:
            start = start_pos.item()
            torch._check(start >= 0)  # type: ignore[operator]
            result: Tensor = torch.ops.thimble.shared_attention(query, keys, keys, start, 1.0)
            return result

    inputs = torch.zeros(1, 3, 2, 4), torch.zeros(1, 8, 2, 4), torch.zeros(1, dtype=torch.long)
    program = torch.export.export(Reader(), inputs)
    calls = find_calls(program.graph, Values(Constants(program)))
    assert not any(isinstance(op, SharedAttention) for ops in calls.ops for op in ops)
    assert "its keys and values are not those that an attention has written" in {
        *calls.reasons.values()
    }
