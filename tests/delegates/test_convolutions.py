"""Short convolutions: what delegates make of them, whatever the calls."""

from pathlib import Path

import pytest
import torch
from support.cpu_models import prepare, write
from support.exported import feed
from support.op_list import read_calls
from support.small_models import random_model
from torch import Tensor

from delegates import cpu, get_delegate
from delegates.errors import DelegateError
from devtools.report.op_list import read_op_list
from exporter.agreement import compare, reference_logits
from exporter.kv_caches import states
from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec
from exporter.program import capture
from quant.scheme import Scheme

CONTEXT, CALL = 300, 40
LENGTHS = [40, 1, 39, 7, 1, 1, 40, 40, 40, 13, 40, 37, 1]
CONFIG = {
    "model_type": "lfm2",
    "vocab_size": 90,
    "hidden_size": 72,
    "block_ff_dim": 144,
    "block_multiple_of": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "layer_types": ["conv", "conv", "full_attention", "conv"],
    "conv_bias": True,
}
SPEC = decoder_spec(CONFIG)
TOKENS = torch.randint(90, (CONTEXT,), generator=torch.Generator().manual_seed(2))
LAYER = "model.layers"


def model() -> CausalLM:
    return random_model(SPEC)


@pytest.fixture(scope="module")
def lowered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("convolutions") / "model.pte"
    result = cpu.lower(capture(model(), CONTEXT, CALL), {}, {}, with_etrecord=False)
    assert (result.report.calls, result.report.left) == (1, {})
    with open(path, "wb") as file:
        result.program.write_to_file(file)
    return path


@pytest.fixture(scope="module")
def wanted() -> Tensor:
    """Eager's logits after every token, by whole sequences without a cache."""
    return model().logits(TOKENS[None])[0]


def test_calls_of_every_length_give_eagers_logits(
    lowered: Path, wanted: Tensor, cpp_build: Path
) -> None:
    """The last token's are bit-identical, whatever the calls were."""
    assert sum(LENGTHS) == CONTEXT
    last = []
    for lengths in (LENGTHS, LENGTHS[::-1], [1] * 60 + [40] * 5 + [39, 1]):
        step = cpu.load(lowered)
        assert step is not None
        found = feed(step, TOKENS, lengths)
        ends = torch.tensor(lengths).cumsum(0) - 1
        assert (found - wanted[ends]).abs().max() < 2e-5 * wanted.abs().max()
        last.append(found[-1])
    assert torch.equal(last[0], last[1]) and torch.equal(last[0], last[2])


def test_a_captured_program_continues_where_it_ended(wanted: Tensor) -> None:
    found = feed(capture(model(), CONTEXT, CALL).module(), TOKENS, LENGTHS)
    ends = torch.tensor(LENGTHS).cumsum(0) - 1
    assert (found - wanted[ends]).abs().max() < 2e-5 * wanted.abs().max()


def test_its_decomposition_is_plain_aten(wanted: Tensor) -> None:
    program = capture(model(), CONTEXT, CALL).run_decompositions()
    names = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert not any("thimble" in name for name in names), names
    lengths = LENGTHS[:-1]  # torch.export bounds positions below the last one again
    found = feed(program.module(), TOKENS, lengths)
    ends = torch.tensor(lengths).cumsum(0) - 1
    assert (found - wanted[ends]).abs().max() < 2e-5 * wanted.abs().max()


def test_a_layer_is_five_operators_and_a_state(lowered: Path, tmp_path: Path) -> None:
    (call,) = read_calls(lowered, tmp_path)
    assert call.describe()[1:6] == [
        f"Linear norm {LAYER}.0.conv.in_proj",
        f"Convolution {LAYER}.0.conv",
        f"Linear accumulate {LAYER}.0.conv.out_proj",
        f"Linear norm gated {LAYER}.0.mlp.gate_up_proj",
        f"Linear accumulate {LAYER}.0.mlp.down_proj",
    ]
    kept = [{"name": f"{LAYER}.{i}.conv", "rows": 2, "width": 72} for i in (0, 1, 3)]
    assert call.program["states"] == kept
    op_list = read_op_list((tmp_path / "call.bin").read_bytes(), {})
    assert op_list is not None
    (three,) = states(SPEC)
    assert (three.layers, three.rows, three.width) == (3, 2, 72)
    keys_and_values = CONTEXT * 2 * 2 * 12 * 4
    assert op_list.cache_bytes == keys_and_values + three.size


def test_numpy_reads_the_op_list_alike(lowered: Path, wanted: Tensor, tmp_path: Path) -> None:
    (call,) = read_calls(lowered, tmp_path)
    for _ in range(2):  # a new text leaves the last one's states behind
        found = feed(call.step, TOKENS[:120], [1, 40, 38, 40, 1])
        assert (found - wanted[[0, 40, 78, 118, 119]]).abs().max() < 2e-5 * wanted.abs().max()


@pytest.mark.parametrize("scheme", [Scheme("rtn4"), Scheme("rtn8")], ids=lambda s: s.name)
def test_quantized_files_agree_with_eager(scheme: Scheme, tmp_path: Path, cpp_build: Path) -> None:
    quantized = prepare(model(), scheme)
    reference = reference_logits(quantized, TOKENS, CALL, True)
    found = write(capture(quantized, CONTEXT, CALL), tmp_path, reference)
    assert found.lowered.report.linears_delegated == 3 * 5 + 7 + 1
    step = cpu.load(found.path)
    assert step is not None
    assert compare(reference, step).error <= reference.tolerance
    if scheme.name == "rtn4":  # numpy rotates no inputs
        assert compare(reference, found.calls[0].step).error <= reference.tolerance


@pytest.mark.parametrize("name", ["xnnpack", "mlx", "mps", "vulkan", "coreml", "tosa", "qnn"])
def test_other_delegates_refuse_them_by_name(name: str) -> None:
    """Before any work begins, and whatever the caller has checked."""
    delegate = get_delegate(name)
    with pytest.raises(DelegateError) as early:
        delegate.LIMITS.check_convolution()
    assert str(early.value) == (
        f"{name} does not support short convolutions: export with --delegate cpu."
    )
    with pytest.raises(DelegateError, match=r"convolutions \(exporter/models/convolution.py:"):
        delegate.LIMITS.check_operators(capture(model(), 16, 1))


def test_a_preference_takes_them_where_one_does() -> None:
    get_delegate("cpu,xnnpack").LIMITS.check_convolution()
    with pytest.raises(DelegateError, match="^mlx,xnnpack does not support short convolutions"):
        get_delegate("mlx,xnnpack").LIMITS.check_convolution()
