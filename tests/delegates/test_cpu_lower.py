"""How a decoder becomes a delegate call: the operators in order, what is left outside and still
computes the same, and which nodes each of them answers for."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.cpu_models import (
    ARCHITECTURES,
    CONTEXT,
    LowerArchitecture,
    LoweredModel,
    lower_model,
    prepare,
    write,
)
from support.decoder_specs import varied
from support.exported import feed
from support.op_list import read_calls
from support.small_models import random_model
from support.tiers import checked, checked_rows
from support.xnnpack_programs import INPUTS, OUTPUTS, captured
from torch import Tensor, nn
from torch.export import ExportedProgram

from delegates import DelegateError
from delegates.cpu import load, lower
from delegates.passes.quantized import LIMITS
from exporter.capture.program import capture
from exporter.file.agreement import compare, reference_logits
from exporter.models.decoder import CausalLM
from quant.modules import QuantizedLinear, QuantizedWeight
from quant.scheme import Scheme
from quant.weight_type import INT8, INT8_GROUPS, WeightType, int4

ONE_LAYER = ARCHITECTURES["tied"]
LAYER = "model.layers.0"
RTN4 = Scheme("rtn4")


@pytest.fixture(scope="module")
def model(lowered_architecture: LowerArchitecture) -> LoweredModel:
    """One layer, tied, 4 bits with an 8-bit head."""
    return lowered_architecture("tied", RTN4)


def test_a_decoder_of_one_layer_is_seven_operators(model: LoweredModel) -> None:
    (call,) = model.calls
    assert call.describe() == [
        "Embedding model.embed_tokens",
        f"Linear norm {LAYER}.self_attn.qkv_proj",
        f"Attention rotate {LAYER}.self_attn",
        f"Linear accumulate {LAYER}.self_attn.o_proj",
        f"Linear norm gated {LAYER}.mlp.gate_up_proj",
        f"Linear accumulate {LAYER}.mlp.down_proj",
        "Linear norm last_row lm_head",
    ]
    report = model.lowered.report
    assert report.calls == 1 and not report.left
    assert report.linears_delegated == 8
    plan = model.lowered.program.executorch_program.execution_plan[0]
    (instruction,) = plan.chains[0].instructions
    assert type(instruction.instr_args).__name__ == "DelegateCall"


def test_tied_weights_are_stored_once(model: LoweredModel, tmp_path: Path) -> None:
    others = (Scheme("rtn4", 32, 4), Scheme("none"))
    models = [lower_model(random_model(ONE_LAYER), scheme, tmp_path) for scheme in others]
    for lowered in (model, *models):
        (call,) = lowered.calls
        first, *_, last = call.program["ops"]
        assert first["kind"]["weight"] == last["kind"]["weight"]
        keys = [item["key"] for item in call.program["weights"]]
        assert len(keys) == len(set(keys)) == 5
        assert {key for key in call.data if key.startswith("cpu/")} == {*keys, "cpu/floats 0"}
        buffers = lowered.lowered.program.executorch_program.constant_buffer
        assert [len(buffer.storage) for buffer in buffers] == [0]  # nothing beside the delegate's


def test_matrices_of_different_formats_stay_apart(tmp_path: Path) -> None:
    """The second and third read what the first has quantized."""
    model = random_model(ONE_LAYER)
    quantized, eight = prepare(model, RTN4), prepare(model, Scheme("rtn8", whole_rows=True))
    attention, other = (m.model.layers[0].self_attn for m in (quantized, eight))
    attention.k_proj = other.k_proj
    quantized.model.layers[0].mlp.up_proj = model.model.layers[0].mlp.up_proj
    reference = reference_logits(quantized, torch.arange(30), CONTEXT, True)
    lowered = write(capture(quantized, CONTEXT, CONTEXT), tmp_path, reference)
    (call,) = lowered.calls
    assert call.describe()[1:5] == [
        f"Linear norm {LAYER}.self_attn.q_proj",
        # int4 pads its columns to whole groups, 96, as int8 pads to 32.
        f"Linear norm prepared {LAYER}.self_attn.k_proj",
        f"Linear norm prepared {LAYER}.self_attn.v_proj",
        f"Attention rotate {LAYER}.self_attn",
    ]
    assert call.describe()[6:9] == [
        f"Linear norm {LAYER}.mlp.gate_proj",
        f"Linear norm {LAYER}.mlp.up_proj",  # in float
        f"Glu {LAYER}.mlp",
    ]
    assert compare(reference, call.step).error <= reference.tolerance


def test_scales_on_one_level_take_more_bits_and_only_there(tmp_path: Path) -> None:
    """Keys whose scales are a float a group: queries, keys and values are of two formats."""
    quantized = prepare(random_model(ONE_LAYER), RTN4)
    keys = quantized.model.layers[0].self_attn.k_proj
    keys.weight_type = dataclasses.replace(keys.weight_type, levels=1)
    keys.scales[3, 1] = 1.0703125  # 137 / 128
    reference = reference_logits(quantized, torch.arange(30), CONTEXT, True)
    (call,) = write(capture(quantized, CONTEXT, CONTEXT), tmp_path, reference).calls
    formats = {item["key"]: item["format"] for item in call.program["weights"]}
    assert formats.pop(f"cpu/{LAYER}.self_attn.k_proj") == "int4"
    assert formats.pop("cpu/model.embed_tokens") == "int8"
    assert set(formats.values()) == {"int4_two_level"}
    assert compare(reference, call.step).error <= reference.tolerance


class Bent(nn.Module):
    """erf of what a module computes: nothing the delegate knows."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: Any) -> Tensor:
        return 3 * torch.erf(self.inner(*args) / 3)


def bend_attention(model: CausalLM) -> None:
    model.model.layers[0].self_attn = Bent(model.model.layers[0].self_attn)


def bend_query(model: CausalLM) -> None:
    model.model.layers[0].self_attn.q_norm = Bent(model.model.layers[0].self_attn.q_norm)


def bend_logits(model: CausalLM) -> None:
    model.lm_head = Bent(model.lm_head)


def bend_last(model: CausalLM) -> None:
    model.model.norm = Bent(model.model.norm)


# What each leaves outside beside erf: delegate calls.
BENT: list[tuple[Callable[[CausalLM], None], int]] = [
    (bend_attention, 2),
    (bend_query, 2),
    (bend_logits, 2),  # a scale on either side of it
    (bend_last, 2),
]


@pytest.mark.parametrize(
    ("bend", "calls"), [BENT[0], *checked_rows(BENT[1:])], ids=lambda x: getattr(x, "__name__", "")
)
def test_an_unknown_operator_is_left_and_the_rest_is_not(
    bend: Callable[[CausalLM], None], calls: int, tmp_path: Path, cpp_build: Path
) -> None:
    model = random_model(ARCHITECTURES["qwen3"])
    bend(model)
    program = capture(model, CONTEXT, CONTEXT)
    tokens, lengths = torch.arange(24), [20, 3, 1]
    want = feed(model, tokens, lengths)
    lowered = lower(program, {}, {}, with_etrecord=False)
    report = lowered.report
    assert report.calls == calls
    assert report.linears_delegated == report.linears == 8
    left = dict(report.left)
    left.pop("_local_scalar_dense", None)  # the position, where two calls read it
    assert left == {"erf": 1}
    path = tmp_path / "model.pte"
    with open(path, "wb") as file:
        lowered.program.write_to_file(file)
    step = load(path)
    assert step is not None
    torch.testing.assert_close(feed(step, tokens, lengths), want, rtol=1e-4, atol=1e-4)


def delegated_handles(program: ExportedProgram, patch: pytest.MonkeyPatch) -> tuple[set, set, list]:
    """Handles of the nodes given to the delegate, those that its debug ids stand for, and the
    ids."""
    from delegates.cpu.backend import ThimbleCpuBackend

    given: set[int] = set()
    results = []
    real = ThimbleCpuBackend.preprocess

    def watching(edge_program: ExportedProgram, specs: Any) -> Any:
        calls = edge_program.graph.nodes
        given.update(n.meta["debug_handle"] for n in calls if n.op == "call_function")
        results.append(real(edge_program, specs))
        return results[-1]

    patch.setattr(ThimbleCpuBackend, "preprocess", staticmethod(watching))
    lower(program, {}, {}, with_etrecord=False)
    kept = {
        handle for r in results for handles in r.debug_handle_map.values() for handle in handles
    }
    return given, kept, sorted(key for r in results for key in r.debug_handle_map)


def test_no_debug_handle_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    config = varied(ARCHITECTURES["biases"], qk_norm="heads")
    program = capture(prepare(random_model(config), RTN4), CONTEXT, CONTEXT)
    given, kept, ids = delegated_handles(program, monkeypatch)
    assert len(given) > 60
    assert kept == given
    assert ids == list(range(len(ids)))  # the embedding's, and two for each of six operators
    assert len(ids) == 1 + 2 * 6


def test_debug_ids_tell_preparation_from_work(model: LoweredModel) -> None:
    module = model.lowered.program.exported_program().graph_module
    (lowered,) = (m for _, m in module.named_children() if hasattr(m, "original_module"))
    names: dict[int, str] = {}
    for node in lowered.original_module.graph.nodes:
        if node.op == "call_function":
            short = re.sub(r"(_default|_tensor).*", "", node.name)
            names.setdefault(node.meta["debug_handle"], short)  # not that of a result's part
    handles = lowered.meta["debug_handle_map"]
    ops = {op["name"]: op for op in model.calls[0].program["ops"]}

    def covered(name: str, part: str) -> set[str]:
        return {names[handle] for handle in handles[ops[name][part]]}

    down = f"{LAYER}.mlp.down_proj"
    assert covered(down, "debug_id") == {"thimble_linear", "aten_add"}
    assert covered(down, "prepare_debug_id") == {"thimble_linear"}  # quantizes its input
    qkv = f"{LAYER}.self_attn.qkv_proj"
    assert {"thimble_linear", "aten_rsqrt"} <= covered(qkv, "prepare_debug_id")
    assert covered(qkv, "debug_id") == {"thimble_linear"}
    attention = f"{LAYER}.self_attn"
    assert {"aten_cat", "_local_scalar_dense"} <= covered(attention, "prepare_debug_id")
    assert "auto_functionalized_v2" in covered(attention, "debug_id")
    assert ops["model.embed_tokens"]["debug_id"] == ops["model.embed_tokens"]["prepare_debug_id"]


def quantized(type: WeightType, scales: Tensor | None = None) -> QuantizedLinear:
    """A linear of random integers; its scales are exact in bfloat16 and float16 unless
    given."""
    generator = torch.Generator().manual_seed(type.bits)
    low, high = LIMITS.get(type.bits, (-8, 8))
    groups = INPUTS // (type.group_size or INPUTS)
    shape = OUTPUTS, INPUTS
    values = torch.randint(low, high + 1, shape, generator=generator, dtype=torch.int8)
    if scales is None:
        scales = torch.rand(OUTPUTS, groups, generator=generator) + 0.5
        scales = scales.bfloat16().float()
    return QuantizedLinear(QuantizedWeight(values, scales, type), INPUTS)


def refused(linear: QuantizedLinear) -> str:
    program = captured(nn.Sequential(linear), torch.randn(1, 4, INPUTS))
    with pytest.raises(DelegateError) as error:
        lower(program, {}, {}, with_etrecord=False)
    return str(error.value)


def test_what_no_format_holds_is_refused() -> None:
    one_level = WeightType(4, 32, 1)
    scales = torch.full((OUTPUTS, INPUTS // 32), 0.1)
    said = refused(quantized(one_level, scales))
    assert said.startswith("0.weight has scales that are not exact in float16")
    said = refused(quantized(INT8_GROUPS, scales))
    assert said.startswith("0.weight has scales that are not exact in float16")
    scales[0, 0] = torch.inf
    said = refused(quantized(one_level, scales))
    assert said.startswith("0.weight has a scale that is not a number")
    said = refused(quantized(int4(32)))
    assert said.startswith("0.weight has scales that are not an integer of 1 to 15 times a number")
    said = refused(quantized(WeightType(6, 32, 2)))
    assert said.startswith("0.weight has scales that are not an integer of 1 to 4 times a number")
    said = refused(quantized(WeightType(3, 32, 2)))
    assert said.startswith("0.weight has values that 3 bits do not hold; they hold 8, 5, 3, 1, -1,")
    odd = quantized(one_level)
    odd.weight_type = SimpleNamespace(bits=4, group_size=16, levels=1)  # type: ignore[assignment]
    assert "thimble::linear in a form that no kernel supports" in refused(odd)


def test_a_rotated_input_is_said_in_the_call(tmp_path: Path) -> None:
    module = quantized(INT8)
    module.rotated = 64
    x = torch.randn(1, 5, INPUTS, generator=torch.Generator().manual_seed(3))
    lowered = lower(captured(module, x), {}, {}, with_etrecord=False)
    path = tmp_path / "linear.pte"
    with open(path, "wb") as file:
        lowered.program.write_to_file(file)
    (call,) = read_calls(path, tmp_path)
    (op,) = call.program["ops"]
    assert op["kind"]["rotated"] == 64


TYPES = [
    WeightType(*facts)
    for facts in [(4, 64, 2), (8, 0, 1), (8, 32, 1), (8, 64, 1), (4, 32, 1), (5, 32, 2), (6, 64, 2)]
]


@pytest.mark.parametrize("type", [TYPES[0], *checked(TYPES[1:])])
def test_a_lone_linear_is_a_call_of_its_own(tmp_path: Path, type: WeightType) -> None:
    generator = torch.Generator().manual_seed(3)
    scales = None
    if type.levels == 2:
        scales = torch.randint(1, 5, (OUTPUTS, INPUTS // type.group_size), generator=generator) / 4
    module = quantized(type, scales)
    x = torch.randn(1, 5, INPUTS, generator=generator)
    want = module(x)[0]  # before lowering, which takes the weights
    lowered = lower(captured(module, x), {}, {}, with_etrecord=False)
    path = tmp_path / "linear.pte"
    with open(path, "wb") as file:
        lowered.program.write_to_file(file)
    (call,) = read_calls(path, tmp_path)
    assert call.describe() == ["Linear thimble_linear_default"]
    assert call.program["inputs"] == [{"role": "rows", "slot": 0}]
    assert call.program["outputs"] == [{"role": "rows", "slot": 1}]
    (weight,) = call.weights
    # Eager sums 64 products of up to 128 * 1.5 * 4 in float32, a rounding of 2^-24 each.
    most = 64 * (64 * 128 * 1.5 * 4) * 2**-24
    have = torch.from_numpy(weight.product(x.numpy()[0]))
    torch.testing.assert_close(have, want, rtol=0, atol=most)
