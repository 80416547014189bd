"""Sliding windows, soft caps and sinks of attention: what delegates make of them, past the window
and many times around the ring that the CPU delegate keeps."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
from support.cpu_models import TINY
from support.exported import feed
from support.op_list import OpList, read_calls
from support.small_models import random_model
from torch import Tensor

from delegates import cpu, get_delegate, xnnpack
from delegates.errors import DelegateError
from delegates.op_list.ops.attention import ring_rows
from delegates.passes.attention import positions_of, rewrite_attention
from delegates.xnnpack.lower import take
from devtools.report.op_list import read_op_list
from exporter.capture.program import capture
from exporter.models.decoder import CausalLM
from exporter.models.spec import DecoderSpec
from exporter.plan.kv_caches import kv_caches
from exporter.plan.requirements import needs_of

CONTEXT, CALL = 300, 40  # rings of 128 positions
LENGTHS = [40, 1, 39, 7, 1, 1, 40, 40, 40, 13, 40, 37, 1]
TOKENS = torch.randint(TINY.vocab_size, (CONTEXT,), generator=torch.Generator().manual_seed(2))


def spec(*mixers: dict[str, object]) -> DecoderSpec:
    """TINY with a layer for each of these changes to its attention."""
    (layer,) = TINY.layers
    layers = [replace(layer, mixer=replace(layer.mixer, **each)) for each in mixers]
    return replace(TINY, layers=tuple(layers), context_limit=CONTEXT)


# Windows of one position, within a call, of more than a call, and beyond the context.
MIXED = spec(
    {"window": 20, "soft_cap": 0.7},
    {"sinks": True},
    {"window": 1},
    {"window": 70, "sinks": True, "soft_cap": 1.5},
    {"window": 1000},
)


def model_of(spec: DecoderSpec) -> CausalLM:
    """With scores that a cap bends, and sinks that take much."""
    model = random_model(spec)
    for name, parameter in model.named_parameters():
        if "q_proj" in name or "k_proj" in name:
            parameter.mul_(2)
        if name.endswith("sinks"):
            parameter.copy_(torch.linspace(-2, 2, len(parameter)))
    return model


@pytest.fixture(scope="module")
def lowered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("windows") / "model.pte"
    result = cpu.lower(capture(model_of(MIXED), CONTEXT, CALL), {}, {}, with_etrecord=False)
    assert (result.report.calls, result.report.left) == (1, {})
    with open(path, "wb") as file:
        result.program.write_to_file(file)
    return path


@pytest.fixture(scope="module")
def wanted() -> Tensor:
    """Eager's logits after every token, by whole sequences without a cache."""
    return model_of(MIXED).logits(TOKENS[None])[0]


@pytest.mark.check
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


@pytest.mark.check
def test_the_ring_is_small(lowered: Path, tmp_path: Path) -> None:
    """20 + 14 + 40, 1 + 14 + 40 and 70 + 14 + 40 positions in whole tiles of 64."""
    (call,) = read_calls(lowered, tmp_path)
    assert [cache["rows"] for cache in call.program["caches"]] == [128, 0, 64, 128, 0]
    assert [ring_rows(512, 32768, 32768), ring_rows(512, 700, 700)] == [832, 0]
    assert [ring_rows(0, 4096, 9), ring_rows(1, 4096, 1)] == [0, 64]
    blob = (tmp_path / "call.bin").read_bytes()
    op_list = read_op_list(blob, {})
    assert op_list is not None
    position = 2 * 2 * 12 * 4  # keys and values of 2 heads of 12 numbers, float32
    assert op_list.cache_bytes == (128 + 300 + 64 + 128 + 300) * position
    kept = kv_caches(MIXED.for_context(CONTEXT), cpu.LIMITS, 4, CONTEXT, CALL)
    assert sum(each.size for each in kept) == op_list.cache_bytes
    positions = [(each.window, each.positions) for each in kept]
    assert positions == [(20, 128), (None, 300), (1, 64), (70, 128)]
    whole = kv_caches(MIXED.for_context(CONTEXT), xnnpack.LIMITS, 4, CONTEXT, CALL)
    assert {each.positions for each in whole} == {CONTEXT}


@pytest.mark.check
def test_numpy_reads_the_op_list_alike(lowered: Path, wanted: Tensor, tmp_path: Path) -> None:
    (call,) = read_calls(lowered, tmp_path)
    assert isinstance(call, OpList)
    found = feed(call.step, TOKENS[:120], [40, 40, 39, 1])
    assert (found - wanted[[39, 79, 118, 119]]).abs().max() < 2e-5 * wanted.abs().max()


@pytest.mark.check
def test_the_decomposition_gives_eagers_logits(wanted: Tensor) -> None:
    """What Core ML, TOSA and others start from."""
    program = capture(model_of(MIXED), CONTEXT, CALL)
    rewrite_attention(program, positions_of(program))
    found = feed(program.module(), TOKENS, LENGTHS)
    ends = torch.tensor(LENGTHS).cumsum(0) - 1
    assert (found - wanted[ends]).abs().max() < 2e-5 * wanted.abs().max()


@pytest.mark.check
def test_xnnpack_is_right_past_the_window(tmp_path: Path, cpp_build: Path) -> None:
    two = spec({"window": 20}, {})
    result = xnnpack.lower(capture(model_of(two), CONTEXT, CALL), {}, {}, with_etrecord=False)
    with open(tmp_path / "model.pte", "wb") as file:
        result.program.write_to_file(file)
    step = xnnpack.load(tmp_path / "model.pte")
    assert step is not None
    found = feed(step, TOKENS[:121], [40, 40, 40, 1])
    expected = model_of(two).logits(TOKENS[None, :121])[0, [39, 79, 119, 120]]
    assert (found - expected).abs().max() < 2e-5 * expected.abs().max()


@pytest.mark.parametrize("mixer", [{"soft_cap": 30.0}, {"sinks": True}], ids=["cap", "sinks"])
def test_operators_without_them_are_refused_by_name(mixer: dict[str, object]) -> None:
    what = "the soft cap 30.0" if "soft_cap" in mixer else "sinks"
    program = capture(random_model(spec(mixer)), 16, 16)
    with pytest.raises(DelegateError) as refused:
        take(program, {}, False)
    said = str(refused.value)
    assert said.startswith(f"XNNPACK's operator has no attention with {what} (")
    assert said.endswith("export with --delegate cpu, coreml, tosa or qnn.")


NAMES = ["cpu", "xnnpack", "mlx", "mps", "vulkan", "mlx,xnnpack"]
MIXERS: list[dict[str, object]] = [{"window": 9}, {"soft_cap": 30.0}, {"sinks": True}]
EACH = list(product(NAMES, MIXERS))
FIRST = [("mlx,xnnpack", MIXERS[0]), ("mps", MIXERS[1]), ("cpu", MIXERS[2])]


@pytest.mark.check
@pytest.mark.parametrize(
    ("name", "mixer"),
    [*FIRST, *(row for row in EACH if row not in FIRST)],
    ids=str,
)
def test_limits_refuse_what_lowering_refuses(name: str, mixer: dict[str, object]) -> None:
    """The one before any work begins, the other whatever its caller has checked."""
    delegate = get_delegate(name)
    refused = []
    for attempt in (
        lambda: delegate.LIMITS.check(needs_of(spec(mixer))),
        lambda: delegate.lower(capture(model_of(spec(mixer)), 16, 16), {}, {}, False),
    ):
        try:
            attempt()
        except DelegateError:
            refused.append(attempt)
    assert len(refused) in (0, 2)
