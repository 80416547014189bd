"""MPS: the CPU delegate's program under Metal's name, run by the Metal kernels through the shim.

The shim (runtime/cpp/delegate/metal/shim) compiles the kernels' source for the processor. Every
float operation of the kernels is IEEE and in the order of the CPU delegate's `scalar` kernels, so
the two are bit-identical.
"""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import flatbuffers.table
import pytest
import torch
from executorch.exir._serialize._program import (
    PTEFile,
    deserialize_pte_binary,
    serialize_pte_binary,
)
from support.cpu_models import ARCHITECTURES, CONTEXT, MODELS, LowerArchitecture, prepare
from support.exported import Quiet
from support.family_models import case_of, our_model, reference_model, tokens_of
from support.odd_models import OddDecoder, OddLayer, captured_odd
from support.small_models import random_model
from support.tiers import checked_rows, soaked
from torch import Tensor

from delegates import DelegateError, Step, cpu, mps
from delegates.executorch_runtime import open_program
from delegates.op_list.layout import PAGE_BYTES
from delegates.op_list.program import CacheType
from exporter.capture.program import capture
from exporter.file.pte import read_report, seal
from exporter.models.decoder import CausalLM
from exporter.options import ExportOptions
from exporter.pipeline import ExportResult, export_model
from quant.scheme import Scheme

KERNELS, ORDER = "THIMBLE_KERNELS", "THIMBLE_METAL_ORDER"
QUANTIZED = next(case for case in MODELS if case[0] == "qwen2")  # 4 bits, and biases
CACHE_TYPE = 5  # its field in the table of program.fbs


@pytest.fixture(scope="module")
def shim(cpp_build: Path) -> Path:
    """The Metal delegate on the shim, registered in this process."""
    library = cpp_build / "libthimble_metal_test.so"
    ctypes.CDLL(str(library))
    return library


@pytest.fixture
def scalar(cpp_build: Path) -> Iterator[None]:
    """The CPU delegate loads with its plain kernels."""
    before = os.environ.get(KERNELS)
    os.environ[KERNELS] = "scalar"
    yield
    del os.environ[KERNELS]
    if before is not None:
        os.environ[KERNELS] = before


def delegate_of(path: Path) -> tuple[str, bytes, dict[str, bytes]]:
    """The id of a file's only delegate, its program, and the file's named data."""
    file = deserialize_pte_binary(path.read_bytes())
    assert file.named_data is not None
    (delegate,) = file.program.execution_plan[0].delegates
    blob = bytes(file.program.backend_delegate_data[delegate.processed.index].data)
    buffers = file.named_data.buffers
    data = {k: bytes(buffers[v.buffer_index]) for k, v in file.named_data.pte_data.items()}
    return delegate.id, blob, data


def logits_of(step: Step, tokens: Tensor, lengths: list[int]) -> Tensor:
    rows, at = [], 0
    for length in lengths:
        rows.append(step(tokens[None, at : at + length], torch.tensor([at])).clone())
        at += length
    return torch.cat(rows)


def greedy_tokens(step: Step, prompt: list[int], count: int) -> list[int]:
    tokens = list(prompt)
    logits = step(torch.tensor([tokens]), torch.tensor([0]))
    for _ in range(count):
        tokens.append(int(logits.argmax()))
        logits = step(torch.tensor([tokens[-1:]]), torch.tensor([len(tokens) - 1]))
    return tokens


def relabelled(path: Path, out: Path) -> Path:
    """The same file for the other of the two delegates."""
    file = deserialize_pte_binary(path.read_bytes())
    (delegate,) = file.program.execution_plan[0].delegates
    delegate.id = "ThimbleCpuBackend" if "Metal" in delegate.id else "ThimbleMetalBackend"
    return written(file, out)


def with_float16_cache(path: Path, out: Path) -> Path:
    """The same file for the CPU delegate with caches as Metal keeps them."""
    file = deserialize_pte_binary(path.read_bytes())
    (data,) = file.program.backend_delegate_data
    blob = bytearray(data.data)
    table = flatbuffers.table.Table(blob, int.from_bytes(blob[:4], "little"))
    at = table.Offset(4 + 2 * CACHE_TYPE)
    if at and blob[table.Pos + at] == CacheType.INT8:
        blob[table.Pos + at] = CacheType.FLOAT16
    data.data = bytes(blob)
    return written(file, out)


def written(file: PTEFile, out: Path) -> Path:
    out.write_bytes(
        bytes(
            serialize_pte_binary(file, extract_delegate_segments=True, segment_alignment=PAGE_BYTES)
        )
    )
    return out


@pytest.mark.parametrize(
    ("name", "scheme"),
    [*MODELS[1:2], *checked_rows(MODELS[:1] + MODELS[2:])],
    ids=lambda x: str(getattr(x, "name", x)),
)
def test_every_architecture(
    name: str,
    scheme: Scheme,
    lowered_architecture: LowerArchitecture,
    shim: Path,
    scalar: None,
    tmp_path: Path,
) -> None:
    for_cpu = lowered_architecture(name, scheme).path
    path = relabelled(for_cpu, tmp_path / "mps.pte")
    step = cpu.load(with_float16_cache(for_cpu, tmp_path / "cpu.pte"))
    assert step is not None
    tokens = torch.randint(90, (44,), generator=torch.Generator().manual_seed(2))
    lengths = [33, 1, 2, 5, 1, 1, 1]
    expected = logits_of(step, tokens, lengths)
    assert expected.isfinite().all()
    assert torch.equal(logits_of(open_program(path), tokens, lengths), expected)


@pytest.mark.check
@pytest.mark.parametrize(
    "name",
    ["mistral", "olmo3", "exaone4", "cwm"],  # those with windows
)
@torch.no_grad()
def test_windows_of_a_family(name: str, shim: Path, tmp_path: Path) -> None:
    reference = reference_model(case_of(name))
    tokens, lengths = tokens_of(reference)[0], [29, 1, 2, 5, 1, 1, 1]
    want = reference(tokens[None]).logits[0, torch.tensor(lengths).cumsum(0) - 1]
    ours = our_model(reference)
    model = CausalLM(ours.config.for_context(CONTEXT)).requires_grad_(False).eval()
    model.load_state_dict(ours.state_dict())
    lowered = mps.lower(capture(model, CONTEXT, CONTEXT), {}, {}, with_etrecord=False)
    path = tmp_path / "mps.pte"
    with open(path, "wb") as file:
        lowered.program.write_to_file(file)
    found = logits_of(open_program(path), tokens, lengths)
    torch.testing.assert_close(found, want, rtol=0, atol=1e-4)


def test_the_program_is_the_cpu_delegates(
    lowered_architecture: LowerArchitecture, tmp_path: Path
) -> None:
    name, scheme = QUANTIZED
    model = prepare(random_model(ARCHITECTURES[name]), scheme)
    lowered = mps.lower(capture(model, CONTEXT, CONTEXT), {}, {}, with_etrecord=False)
    assert lowered.report.calls == 1 and lowered.report.left == {}
    path = tmp_path / "mps.pte"
    with open(path, "wb") as file:
        lowered.program.write_to_file(file)
    ours, theirs = delegate_of(path), delegate_of(lowered_architecture(name, scheme).path)
    assert (ours[0], theirs[0]) == ("ThimbleMetalBackend", "ThimbleCpuBackend")
    assert ours[1:] == theirs[1:] and len(ours[2]) > 5


@pytest.fixture(
    scope="module", params=["stories260K", pytest.param("embedded", marks=pytest.mark.soak)]
)
def exported(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ExportResult, Path]:
    """A model exported for Metal by the one command's pipeline, and the same for the CPU."""
    out = tmp_path_factory.mktemp(request.param) / "mps.pte"
    if request.param == "embedded":
        options = ExportOptions(model="llama3", out=out, scheme=Scheme("rtn4"), delegate="mps")
        for_cpu = "embedded_cpu_pte"
    else:
        model = str(request.getfixturevalue("shared_data") / request.param)
        options = ExportOptions(model=model, out=out, scheme=Scheme("none"), delegate="mps")
        for_cpu = "stories_cpu_float_pte"
    return export_model(options, Quiet()), request.getfixturevalue(for_cpu)


@pytest.mark.check
def test_one_call_with_every_linear(exported: tuple[ExportResult, Path]) -> None:
    result, for_cpu = exported
    report = result.delegation
    assert report.delegate == "mps" and report.calls == 1 and report.left == {}
    assert report.linears == report.linears_delegated > 0
    assert result.agreement is None  # nothing on this machine is a Metal device
    assert result.report["agreement"] == {"checked": "not run here"}
    assert mps.load(result.out) is None
    mps_id, blob, data = delegate_of(result.out)
    cpu_id, cpu_blob, cpu_data = delegate_of(for_cpu)
    assert (mps_id, cpu_id) == ("ThimbleMetalBackend", "ThimbleCpuBackend")
    assert blob == cpu_blob
    weights = [key for key in data if key.startswith("cpu/")]
    assert len(weights) > 5 and all(data[key] == cpu_data[key] for key in weights)


@pytest.mark.check
def test_the_runner_here_has_no_metal(cpp_build: Path, exported: tuple[ExportResult, Path]) -> None:
    path = exported[0].out
    result = subprocess.run(
        [cpp_build / "runner", path, "-p", "Once"], capture_output=True, text=True
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        f"runner: {path} runs on ThimbleMetalBackend, which this runner does not include: export "
        "it with --delegate cpu\n"
    )


@pytest.mark.check
def test_the_runner_with_metal_tells_the_same_story(
    cpp_build: Path, both: tuple[Path, Path], tmp_path: Path
) -> None:
    """The runner built with the delegate, on the shim: sessions, streaming and profile included."""
    etdump = tmp_path / "run.etdp"

    def tell(runner: str, path: Path, *options: str | Path) -> str:
        command = [cpp_build / runner, path, "-p", "Once upon a time", "-n", "12", *options]
        result = subprocess.run(command, capture_output=True, text=True, timeout=100)
        assert result.returncode == 0, result.stderr
        return result.stdout

    for_cpu, for_metal = both
    story = tell("metal_runner", for_metal, "--etdump", etdump)
    assert story == tell("runner", for_cpu) and len(story) > 10

    from executorch.devtools import Inspector

    block = Inspector(etdump_path=str(etdump)).event_blocks[-1]
    ids = {e.delegate_debug_identifier for e in block.events if e.delegate_debug_identifier}
    assert len(ids) > 4 * 9  # parts of the operators of four layers or five


@pytest.fixture(scope="module", params=[*soaked(["embedded_cpu_pte"]), "stories_cpu_pte"])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """A 4-bit model for the CPU delegate, and its program under Metal's name; both keep float16."""
    exported = request.getfixturevalue(request.param)
    directory = tmp_path_factory.mktemp(request.param)
    for_cpu = with_float16_cache(exported, directory / "cpu.pte")
    for_metal = relabelled(exported, directory / "mps.pte")
    for path in (for_cpu, for_metal):
        seal(path, read_report(exported))
    return for_cpu, for_metal


@pytest.mark.check
@pytest.mark.parametrize("order", [None, "backward", "shuffled"])
def test_generates_what_the_cpu_delegate_generates(
    order: str | None,
    both: tuple[Path, Path],
    shim: Path,
    scalar: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Prefill and decode of a complete model: bit-identical, so the same greedy tokens. Another
    order of threads between two barriers changes nothing, so no kernel lacks one."""
    if order is not None:
        monkeypatch.setenv(ORDER, order)
    step = cpu.load(both[0])
    assert step is not None
    on_metal = open_program(both[1])
    tokens = torch.arange(5, 45)
    lengths = [36, 1, 2, 1] if order is None else [9, 1]
    assert torch.equal(logits_of(on_metal, tokens, lengths), logits_of(step, tokens, lengths))
    if order is None:
        prompt = [1, 20, 31]
        assert greedy_tokens(on_metal, prompt, 12) == greedy_tokens(step, prompt, 12)


@pytest.mark.check
def test_recomputes_from_any_position(both: tuple[Path, Path], shim: Path) -> None:
    step = open_program(both[1])
    tokens = torch.arange(5, 25)[None]
    whole = step(tokens, torch.tensor([0])).clone()
    for start in (19, 7):
        assert torch.equal(step(tokens[:, start:], torch.tensor([start])), whole)


class Counted(CausalLM):
    """A model with an operator at its end that no op list can say."""

    def forward(self, tokens: Tensor, input_pos: Tensor) -> Tensor:
        return super().forward(tokens, input_pos).cumsum(dim=1)


def test_a_program_that_is_not_taken_completely() -> None:
    model = random_model(ARCHITECTURES["llama"])
    model.__class__ = Counted
    with pytest.raises(DelegateError) as refused:
        mps.lower(capture(model, 16, 16), {}, {}, with_etrecord=False)
    assert str(refused.value).startswith("Metal does not take cumsum (")
    assert "test_mps.py:" in str(refused.value)


@pytest.mark.parametrize(
    ("decoder", "sentence"),
    [
        (
            OddDecoder((OddLayer(soft_cap=2.0),)),
            "attention of layers.0.self_attn, which has a soft cap of its scores",
        ),
        (OddDecoder((OddLayer(gated=False),)), "silu of layers.0.mlp, which is not an addition"),
        *checked_rows(
            [
                (
                    OddDecoder((OddLayer(sinks=True),)),
                    "attention of layers.0.self_attn, which has sinks",
                ),
                (
                    OddDecoder((OddLayer(activation="relu"),)),
                    "linear of layers.0.mlp.gate_up_proj, which gates by a function other than "
                    "silu",
                ),
                (
                    OddDecoder((OddLayer(value_norm=True),)),
                    "norm of layers.0.self_attn.v_norm, which normalizes each head",
                ),
                (
                    OddDecoder((OddLayer(head_norm="weight", late_norm=True),)),
                    "rotate of layers.0.self_attn, which has no kernel",
                ),
            ]
        ),
    ],
)
def test_an_op_that_metal_does_not_run_is_refused_by_name(
    decoder: OddDecoder, sentence: str
) -> None:
    with pytest.raises(DelegateError) as refused:
        mps.lower(captured_odd(decoder), {}, {}, with_etrecord=False)
    assert str(refused.value) == f"Metal does not run {sentence}: export with --delegate cpu."
