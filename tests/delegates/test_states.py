"""Layers that keep a state, short convolutions and the gated delta rule: what delegates make of
them, whatever the calls."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from support.cpu_models import prepare, write
from support.exported import feed
from support.op_list import read_calls
from support.small_models import random_model
from support.tiers import checked
from torch import Tensor

from delegates import cpu, get_delegate
from delegates.errors import DelegateError
from delegates.features import Feature, Need
from delegates.needs import needs_of_program
from devtools.report.op_list import read_op_list
from exporter.capture.program import capture
from exporter.file.agreement import compare, reference_logits
from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec
from exporter.plan.kv_caches import states
from exporter.plan.requirements import needs_of
from quant.scheme import Scheme

CONTEXT, CALL = 300, 40
LENGTHS = [40, 1, 39, 7, 1, 1, 40, 40, 40, 13, 40, 37, 1]
SHAPE: dict[str, Any] = {
    "vocab_size": 90,
    "hidden_size": 72,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "lfm2": {
        **SHAPE,
        "block_ff_dim": 144,
        "block_multiple_of": 32,
        "layer_types": ["conv", "conv", "full_attention", "conv"],
        "conv_bias": True,
    },
    "qwen3_5_text": {
        **SHAPE,
        "intermediate_size": 96,
        "head_dim": 16,
        "linear_num_key_heads": 3,
        "linear_num_value_heads": 6,
        "linear_key_head_dim": 20,
        "linear_value_head_dim": 12,
    },
}
# By operator: its name in messages, its line, and the linears of a layer with it.
MIXERS = {
    "lfm2": ("short convolutions", "convolution", 2),
    "qwen3_5_text": ("the gated delta rule", "delta", 5),
}
ATTENTION = {"lfm2": 4, "qwen3_5_text": 5}
TOKENS = torch.randint(90, (CONTEXT,), generator=torch.Generator().manual_seed(2))
LAYER = "model.layers.0"


def model(name: str) -> CausalLM:
    return random_model(decoder_spec({**CONFIGS[name], "model_type": name}))


@dataclass(frozen=True)
class Case:
    """
    Attributes:
        path: of the file.
        wanted: eager's logits after every token, by whole sequences without a cache.
    """

    name: str
    path: Path
    wanted: Tensor


@pytest.fixture(scope="module", params=["lfm2", *checked(["qwen3_5_text"])])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    path = tmp_path_factory.mktemp("states") / "model.pte"
    eager = model(request.param)
    result = cpu.lower(capture(eager, CONTEXT, CALL), {}, {}, with_etrecord=False)
    assert (result.report.calls, result.report.left) == (1, {}), result.report.lines
    with open(path, "wb") as file:
        result.program.write_to_file(file)
    return Case(request.param, path, model(request.param).logits(TOKENS[None])[0])


def assert_close(found: Tensor, case: Case, ends: list[int] | Tensor) -> None:
    assert (found - case.wanted[ends]).abs().max() < 2e-5 * case.wanted.abs().max()


@pytest.mark.check
def test_calls_of_every_length_give_eagers_logits(case: Case, cpp_build: Path) -> None:
    """The last token's are bit-identical, whatever the calls were."""
    assert sum(LENGTHS) == CONTEXT
    last = []
    for lengths in (LENGTHS, LENGTHS[::-1], [1] * 60 + [40] * 5 + [39, 1]):
        step = cpu.load(case.path)
        assert step is not None
        for _ in range(2):  # a new text leaves the last one's states behind
            found = feed(step, TOKENS, lengths)
            assert_close(found, case, torch.tensor(lengths).cumsum(0) - 1)
        last.append(found[-1])
    assert torch.equal(last[0], last[1]) and torch.equal(last[0], last[2])


def test_a_captured_program_continues_where_it_ended(case: Case) -> None:
    found = feed(capture(model(case.name), CONTEXT, CALL).module(), TOKENS, LENGTHS)
    assert_close(found, case, torch.tensor(LENGTHS).cumsum(0) - 1)


@pytest.mark.check
def test_its_decomposition_is_plain_aten(case: Case) -> None:
    program = capture(model(case.name), CONTEXT, CALL).run_decompositions()
    names = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert not any("thimble" in name for name in names), names
    lengths = LENGTHS[:-1]  # torch.export bounds positions below the last one again
    found = feed(program.module(), TOKENS, lengths)
    assert_close(found, case, torch.tensor(lengths).cumsum(0) - 1)


OPERATORS = {
    "lfm2": [
        f"Linear norm {LAYER}.conv.in_proj",
        f"Convolution {LAYER}.conv",
        f"Linear accumulate {LAYER}.conv.out_proj",
    ],
    "qwen3_5_text": [
        f"Linear norm {LAYER}.linear_attn.in_proj_qkv",
        f"Linear norm prepared {LAYER}.linear_attn.in_proj_z",
        f"Linear norm prepared {LAYER}.linear_attn.in_proj_b",
        f"Linear norm prepared {LAYER}.linear_attn.in_proj_a",
        f"Delta {LAYER}.linear_attn",
        f"Norm {LAYER}.linear_attn.norm",
        f"Glu {LAYER}.linear_attn",
        f"Linear accumulate {LAYER}.linear_attn.out_proj",
    ],
}
STATES = {
    "lfm2": [{"name": f"model.layers.{i}.conv", "rows": 2, "width": 72} for i in (0, 1, 3)],
    "qwen3_5_text": [
        {"name": f"model.layers.{i}.linear_attn{suffix}", "rows": rows, "width": width}
        for i in range(3)
        for suffix, rows, width in (("", 3, 2 * 60 + 72), (" 2", 1, 6 * 20 * 16))
    ],
}


def test_a_layers_operators_and_states(case: Case, tmp_path: Path) -> None:
    (call,) = read_calls(case.path, tmp_path)
    count = len(OPERATORS[case.name])
    assert call.describe()[1 : 3 + count] == [
        *OPERATORS[case.name],
        f"Linear norm gated {LAYER}.mlp.gate_up_proj",
        f"Linear accumulate {LAYER}.mlp.down_proj",
    ]
    assert call.program["states"] == STATES[case.name]
    op_list = read_op_list((tmp_path / "call.bin").read_bytes(), {})
    assert op_list is not None
    kept = sum(state["rows"] * state["width"] * 4 for state in STATES[case.name])
    attention = model(case.name).config.attentions[0]
    assert op_list.cache_bytes == CONTEXT * 2 * 2 * attention.head_dim * 4 + kept


def test_what_is_explained_of_states() -> None:
    found = {
        name: [(each.layers, each.numbers, each.size) for each in states(model(name).config)]
        for name in CONFIGS
    }
    matrices = 3 * 192 + 6 * 20 * 12
    assert found == {"lfm2": [(3, 144, 3 * 576)], "qwen3_5_text": [(3, matrices, 12 * matrices)]}


def test_numpy_reads_the_op_list_alike(case: Case, tmp_path: Path) -> None:
    (call,) = read_calls(case.path, tmp_path)
    for _ in range(2):  # a new text leaves the last one's states behind
        found = feed(call.step, TOKENS[:120], [1, 40, 38, 40, 1])
        assert_close(found, case, [0, 40, 78, 118, 119])


@pytest.mark.check
@pytest.mark.parametrize("scheme", [Scheme("rtn4"), Scheme("rtn8")])
@pytest.mark.parametrize("name", ["lfm2", "qwen3_5_text"])
def test_quantized_files_agree_with_eager(
    name: str, scheme: Scheme, tmp_path: Path, cpp_build: Path
) -> None:
    quantized = prepare(model(name), scheme)
    reference = reference_logits(quantized, TOKENS, CALL, True)
    found = write(capture(quantized, CONTEXT, CALL), tmp_path, reference)
    linears = 3 * MIXERS[name][2] + ATTENTION[name] + 4 * 3 + 1
    assert found.lowered.report.linears_delegated == linears
    step = cpu.load(found.path)
    assert step is not None
    assert compare(reference, step).error <= reference.tolerance
    if scheme.name == "rtn4":  # numpy rotates no inputs
        assert compare(reference, found.calls[0].step).error <= reference.tolerance


OTHERS = ["xnnpack", *checked(["mlx", "mps", "vulkan", "coreml", "tosa", "qnn"])]


@pytest.mark.parametrize("delegate", OTHERS)
def test_other_delegates_refuse_them_by_name(delegate: str) -> None:
    """Before any work begins, and whatever the caller has checked."""
    limits = get_delegate(delegate).LIMITS
    takers = {"lfm2": "cpu, xnnpack or coreml", "qwen3_5_text": "cpu"}
    for name in takers if delegate not in takers["lfm2"] else ("qwen3_5_text",):
        what, file, _ = MIXERS[name]
        with pytest.raises(DelegateError) as early:
            limits.check(needs_of(model(name).config))
        assert str(early.value) == (
            f"{delegate} does not support {what}: export with --delegate {takers[name]}."
        )
        with pytest.raises(DelegateError, match=rf"{what} \(exporter/models/{file}.py:"):
            limits.check(needs_of_program(capture(model(name), 16, 1)))


def test_a_preference_takes_them_where_one_does() -> None:
    limits = get_delegate("cpu,xnnpack").LIMITS
    limits.check([Need(Feature.CONVOLUTIONS), Need(Feature.DELTA_RULES)])
    with pytest.raises(DelegateError, match="^mlx,tosa does not support short convolutions"):
        get_delegate("mlx,tosa").LIMITS.check([Need(Feature.CONVOLUTIONS)])
