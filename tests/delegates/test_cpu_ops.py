"""Decoders that no architecture of today is: whatever blocks they are built from, they are one call
of the CPU delegate, with eager's logits, and every peephole may be left out."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from support.exported import feed
from support.odd_models import (
    ACTIVATIONS,
    VOCABULARY,
    OddDecoder,
    OddLayer,
    OddModel,
    captured_odd,
    random_decoder,
)
from support.op_list import OpList, read_calls
from support.tiers import checked, soaked
from torch.export import default_decompositions

from delegates.cpu import load, lower
from delegates.cpu.lower import to_edge_program
from delegates.op_list import peepholes
from delegates.op_list.canonicalize import tidy
from delegates.op_list.graph import Constants
from delegates.op_list.ops import Values
from delegates.op_list.partition import find_calls
from delegates.op_list.peepholes import PEEPHOLES, Peephole
from delegates.op_list.peepholes.activate import activate_in_place
from delegates.op_list.peepholes.integers import attend_in_integers
from delegates.op_list.peepholes.windows import PART_STEP, multiply_windows

LENGTHS = [20, 3, 1]
# Every peephole has something to do here: values that are normed keep three linears apart.
FUSED = OddDecoder((OddLayer(head_norm="weight"), OddLayer(value_norm=True)))
LAYER = "layers.0"
CHOSEN = list(ACTIVATIONS)


@dataclass(frozen=True)
class Run:
    """
    Attributes:
        error: how far the logits of the built library and of numpy are from eager's, at most.
    """

    call: OpList
    error: float


def run(decoder: OddDecoder, directory: Path) -> Run:
    """Lowers a decoder, which must become one call, and runs it three ways."""
    tokens = torch.randint(VOCABULARY, (24,), generator=torch.Generator().manual_seed(1))
    lowered = lower(captured_odd(decoder), {}, {}, with_etrecord=False)
    assert (lowered.report.calls, lowered.report.left) == (1, {}), lowered.report.lines
    path = directory / "model.pte"
    with open(path, "wb") as file:
        lowered.program.write_to_file(file)
    (call,) = read_calls(path, directory)
    step = load(path)
    assert step is not None
    want = feed(OddModel(decoder), tokens, LENGTHS)
    assert want.std() > 0.1
    errors = [(feed(each, tokens, LENGTHS) - want).abs().max() for each in (step, call.step)]
    return Run(call, float(max(errors)))


@pytest.mark.check
@pytest.mark.parametrize("seed", [0, *range(1, 3), *soaked(range(3, 12))])
def test_a_random_decoder_is_one_call(seed: int, tmp_path: Path, cpp_build: Path) -> None:
    assert run(random_decoder(seed), tmp_path).error < 1e-5


@pytest.mark.check
def test_what_no_peephole_takes_is_an_op_of_its_own(tmp_path: Path, cpp_build: Path) -> None:
    """All that Gemma has, and a plain MLP."""
    layers = (
        OddLayer(norms="both", head_norm="weight", rope=1, window=3, activation="gelu_tanh"),
        OddLayer(late_norm=True, head_norm="plain", gated=False, activation="relu"),
    )
    found = run(OddDecoder(layers, embedding_scale=6.5, logit_cap=2.0), tmp_path)
    assert found.error < 1e-5
    first, scale, *lines, cap = found.call.describe()
    assert first == "Embedding embed_tokens"
    assert scale.startswith("Elementwise scale ") and cap.startswith("Elementwise soft_cap ")
    assert lines == [
        "Linear norm layers.0.self_attn.qkv_proj",
        "Attention query_norm rotate window layers.0.self_attn",
        "Linear layers.0.self_attn.o_proj",
        "Norm layers.0.behind.0",
        "Elementwise add layers.0",
        "Linear norm gated layers.0.mlp.gate_up_proj",
        "Linear layers.0.mlp.down_proj",
        "Norm layers.0.behind.1",
        "Elementwise add layers.0",
        "Linear norm layers.1.self_attn.q_proj",
        "Linear norm prepared layers.1.self_attn.k_proj",
        "Linear norm prepared layers.1.self_attn.v_proj",
        "Rotate layers.1.self_attn",
        "Rotate layers.1.self_attn",
        "Attention query_norm layers.1.self_attn",
        "Linear accumulate layers.1.self_attn.o_proj",
        "Linear norm layers.1.mlp.up_proj",
        "Elementwise relu layers.1.mlp",
        "Linear accumulate layers.1.mlp.down_proj",
        "Linear norm last_row lm_head",
    ]
    # The scale, the sums, the rotations and the cap are done in place.
    for op in found.call.program["ops"]:
        if op["kind_type"] in ("Elementwise", "Rotate"):
            kind = op["kind"]
            assert kind["output"] in (kind["input"], kind.get("other")), op["name"]
    windows = [op["kind"].get("window") for op in found.call.program["ops"]]
    assert [window for window in windows if window is not None] == [3, 0]
    names = [cache["name"] for cache in found.call.program["caches"]]
    assert names == ["layers.0.self_attn", "layers.1.self_attn"]


@pytest.mark.check
def test_layer_norms_are_one_call_of_a_newer_program(tmp_path: Path, cpp_build: Path) -> None:
    """Of rows and of heads, with a bias and without, of sequential blocks and of parallel ones.
    Programs without them keep the version that old runners read."""
    layers = (
        OddLayer(kind="layer", head_norm="weight", norms="both", gated=False, activation="gelu"),
        OddLayer(kind="plain_layer", parallel=True, norms="behind"),
    )
    found = run(OddDecoder(layers), tmp_path)
    assert found.error < 1e-5
    norms = [op for op in found.call.program["ops"] if op["kind_type"] == "LayerNorm"]
    heads = ["layers.0.self_attn.q_norm", "layers.0.self_attn.k_norm"]
    before = [f"layers.0.{side}.{block}" for block in (0, 1) for side in ("before", "behind")]
    assert [op["name"] for op in norms] == [
        *(before[0], *heads, *before[1:]),
        *("layers.1.behind.0", "layers.1.behind.1"),
    ]
    assert ["bias" in op["kind"] for op in norms] == [True] * 6 + [False] * 2
    assert [op["kind"]["num_heads"] for op in norms] == [1, 4, 2, 1, 1, 1, 1, 1]
    assert found.call.program["version"] == 7


@pytest.mark.check
@pytest.mark.parametrize("seed", [0, *soaked(range(1, 3))])
def test_functional_aten_is_matched_as_the_edge_dialect_is(seed: int) -> None:
    program = captured_odd(random_decoder(seed))
    table = default_decompositions()
    for target in (torch.ops.aten.linear.default, torch.ops.aten.silu.default):
        table.pop(target, None)
    edge = to_edge_program(program, {}, False).exported_program()
    found = []
    for each in (edge, program.run_decompositions(table)):
        tidy(each)
        calls = find_calls(each.graph, Values(Constants(each)))
        assert not calls.reasons
        (ops,) = calls.ops
        found.append([(op.label, len(op.nodes)) for op in ops])
    assert found[0] == found[1]


@pytest.mark.parametrize("activation", [CHOSEN[0], *checked(CHOSEN[1:2]), *soaked(CHOSEN[2:])])
def test_every_activation_gates(activation: str, tmp_path: Path, cpp_build: Path) -> None:
    found = run(OddDecoder((OddLayer(activation=activation),)), tmp_path)
    assert found.error < 1e-5
    (gated,) = [op["kind"] for op in found.call.program["ops"] if op["kind"].get("gated")]
    assert gated["activation"] == activation


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory, cpp_build: Path) -> Run:
    return run(FUSED, tmp_path_factory.mktemp("fused"))


@pytest.mark.check
def test_all_peepholes_together(fused: Run) -> None:
    assert fused.error < 1e-5
    assert len(fused.call.program["ops"]) == 15
    assert fused.call.program["version"] == 6


# Of decoders: the others merge where texts and pictures are read, as encoder_test.cpp,
# convolving_test.cpp and test_cpu_integers.py run them.
OF_DECODERS = [
    peephole
    for peephole in PEEPHOLES
    if peephole not in (activate_in_place, attend_in_integers, multiply_windows)
]


@pytest.mark.check
@pytest.mark.parametrize(
    "without", [OF_DECODERS[0], *checked(OF_DECODERS[1:])], ids=lambda peephole: peephole.__name__
)
def test_every_peephole_may_be_left_out(
    without: Peephole, fused: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = tuple(peephole for peephole in PEEPHOLES if peephole is not without)
    monkeypatch.setattr(peepholes, "PEEPHOLES", others)
    found = run(FUSED, tmp_path)
    assert found.error < 1e-5
    assert found.call.describe() != fused.call.describe()


@pytest.mark.check
def test_no_peephole_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every node is an op of its own, down to the two factors of a GLU."""
    monkeypatch.setattr(peepholes, "PEEPHOLES", ())
    found = run(FUSED, tmp_path)
    assert found.error < 1e-5
    layer = [line for line in found.call.describe() if f" {LAYER}" in line]
    assert layer == [
        "Norm layers.0.before.0",
        "Linear layers.0.self_attn.q_proj",
        "Linear layers.0.self_attn.k_proj",
        "Linear layers.0.self_attn.v_proj",
        "Norm layers.0.self_attn.q_norm",
        "Norm layers.0.self_attn.k_norm",
        "Rotate layers.0.self_attn",
        "Rotate layers.0.self_attn",
        "Attention layers.0.self_attn",
        "Linear layers.0.self_attn.o_proj",
        "Elementwise add layers.0",
        "Norm layers.0.before.1",
        "Linear layers.0.mlp.gate_proj",
        "Elementwise silu layers.0.mlp",
        "Linear layers.0.mlp.up_proj",
        "Elementwise multiply layers.0.mlp",
        "Linear layers.0.mlp.down_proj",
        "Elementwise add layers.0",
    ]


def test_windows_are_of_as_many_columns_as_the_kernels_add_apart() -> None:
    """The exporter, the delegate's check and the product in float32 each have the number."""
    cpp = Path(__file__).resolve().parents[2] / "runtime" / "cpp"
    places = {
        "delegate/ops/linear_check.cpp": "kPartStep",
        "kernels/shared/float_linear.cpp": "kChains",
    }
    for path, name in places.items():
        said = re.search(rf"constexpr size_t {name} = (\d+);", (cpp / path).read_text("utf-8"))
        assert said is not None and int(said[1]) == PART_STEP, path
