"""The CPU delegate at run time: finished files say what the eager quantized model computes,
bit-identical with every set of kernels."""

import os
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from support.cpu_models import MODELS, LowerArchitecture, LoweredModel, lower_two_levels
from support.exported import Quiet
from support.tiers import checked, soaked_rows
from torch import Tensor

from delegates.cpu.lower import load
from exporter.file.agreement import compare, require_agreement
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme
from quant.weight_type import WeightType

X86_KERNELS = {
    "avx2": {"avx2", "fma"},
    "avxvnni": {"avx_vnni"},
    "avx512vnni": {"avx512_vnni"},
    "amx_int8": {"amx_int8"},
}
KERNELS = "THIMBLE_KERNELS"
EVENT = struct.Struct("<QQII")  # Work of delegates/op_list/program.fbs


def usable_kernels() -> list[str]:
    """The variants that this machine can run beside its default, by /proc/cpuinfo."""
    cpuinfo = Path("/proc/cpuinfo")
    flags = set(cpuinfo.read_text().split()) if cpuinfo.is_file() else set()
    return ["scalar", *(name for name, needed in X86_KERNELS.items() if needed <= flags)]


@pytest.fixture(
    scope="module",
    params=[*MODELS[:2], *checked(MODELS[2:])],
    ids=lambda case: f"{case[0]}-{case[1].name}",
)
def model(request: pytest.FixtureRequest, lowered_architecture: LowerArchitecture) -> LoweredModel:
    return lowered_architecture(*request.param)


@pytest.fixture
def load_with(cpp_build: Path) -> Iterator[Callable[[Path, str], Callable]]:
    """Opens a file with the kernels of a name."""
    before = os.environ.get(KERNELS)

    def open_file(path: Path, kernels: str) -> Callable[[Tensor, Tensor], Tensor]:
        os.environ[KERNELS] = kernels
        step = load(path)
        assert step is not None
        return step

    yield open_file
    os.environ.pop(KERNELS)
    if before is not None:
        os.environ[KERNELS] = before


@pytest.mark.check
@pytest.mark.parametrize(
    ("name", "group_size", "bits"),
    [
        ("tied", 32, 3),
        ("biases", 128, 2),
        ("tied", 32, 5),
        ("biases", 128, 6),
        *soaked_rows([("tied", 32, 6), ("llama", 64, 5), ("llama", 64, 6), ("biases", 128, 5)]),
    ],
)
def test_weights_of_other_widths(
    name: str, group_size: int, bits: int, load_with: Callable, tmp_path: Path
) -> None:
    """In the layers, the embedding and the head."""
    model = lower_two_levels(name, WeightType(bits, group_size, 2), tmp_path)
    formats = {item["format"] for item in model.calls[0].program["weights"]}
    assert formats == {f"int{bits}_two_level"}
    require_agreement(compare(model.reference, load_with(model.path, "scalar")))
    test_all_kernels_are_bit_identical(model, load_with)


def test_computes_what_the_model_computes(model: LoweredModel, load_with: Callable) -> None:
    agreement = compare(model.reference, load_with(model.path, "scalar"))
    require_agreement(agreement)
    assert agreement.top1 == 1


def test_all_kernels_are_bit_identical(model: LoweredModel, load_with: Callable) -> None:
    tokens, lengths = model.reference.tokens, model.reference.lengths
    logits = {}
    for kernels in usable_kernels():
        step, at, got = load_with(model.path, kernels), 0, []
        for length in lengths:
            got.append(step(tokens[None, at : at + length], torch.tensor([at])).clone())
            at += length
        logits[kernels] = torch.cat(got)
    for kernels, values in logits.items():
        assert torch.equal(values, logits["scalar"]), kernels


@pytest.mark.check
def test_recomputes_from_any_position(stories_cpu_pte: Path, load_with: Callable) -> None:
    step = load_with(stories_cpu_pte, "scalar")
    tokens = torch.arange(5, 45)[None]
    whole = step(tokens, torch.tensor([0])).clone()
    for start in (39, 20, 1):
        assert torch.equal(step(tokens[:, start:], torch.tensor([start])), whole)
    for at in range(30, 40):
        last = step(tokens[:, at : at + 1], torch.tensor([at]))
    assert torch.equal(last, whole)


def test_refuses_unknown_kernels(stories_cpu_pte: Path, load_with: Callable) -> None:
    with pytest.raises(RuntimeError):
        load_with(stories_cpu_pte, "mmx")(torch.tensor([[1]]), torch.tensor([0]))


@pytest.fixture(scope="module")
def scalar_story(cpp_build: Path, stories_cpu_pte: Path) -> str:
    return tell_story(cpp_build, stories_cpu_pte, "scalar", 1)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("kernels", usable_kernels())
def test_the_same_story(
    cpp_build: Path, stories_cpu_pte: Path, scalar_story: str, kernels: str, threads: int
) -> None:
    assert len(scalar_story) > 50
    assert tell_story(cpp_build, stories_cpu_pte, kernels, threads) == scalar_story


@pytest.fixture(scope="module")
def int8_pte(one_layer_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("int8") / "stories.pte"
    model = str(one_layer_checkpoint)
    options = ExportOptions(model=model, out=out, scheme=Scheme("rtn8"), delegate="cpu")
    return export_model(options, Quiet()).out


@pytest.mark.parametrize("kernels", usable_kernels())
def test_more_threads_than_blocks(cpp_build: Path, int8_pte: Path, kernels: str) -> None:
    """A matrix of 4 blocks is shared out to more threads along its columns; no bit changes."""
    expected = tell_story(cpp_build, int8_pte, "scalar", 1)
    assert len(expected) > 50
    for threads in (5, 7, 16):
        assert tell_story(cpp_build, int8_pte, kernels, threads) == expected


@pytest.mark.check
def test_the_embedded_model_generates_the_same(cpp_build: Path, embedded_cpu_pte: Path) -> None:
    stories = {tell_story(cpp_build, embedded_cpu_pte, name, 2) for name in usable_kernels()}
    assert len(stories) == 1


def tell_story(build: Path, path: Path, kernels: str, threads: int) -> str:
    options = ["-p", "Once upon a time", "-n", "40", "--threads", str(threads)]
    result = subprocess.run(
        [build / "runner", path, *options],
        env={**os.environ, KERNELS: kernels},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_damaged_programs(cpp_build: Path, stories_op_list: Path) -> None:
    command = [cpp_build / "delegate_damage_test", stories_op_list, "2000"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr


def test_profile(cpp_build: Path, stories_cpu_pte: Path, tmp_path: Path) -> None:
    """One event for each part of each operator, with its id and what it did."""
    from executorch.devtools import Inspector

    etdump = tmp_path / "run.etdp"
    options = ["-p", "Once", "-n", "2", "--threads", "2", "--etdump", etdump]
    subprocess.run([cpp_build / "runner", stories_cpu_pte, *options], check=True, timeout=60)
    inspector = Inspector(etdump_path=str(etdump))
    block = inspector.event_blocks[-1]
    events = [event for event in block.events if event.delegate_debug_identifier is not None]
    model_events = [e for e in events if e.delegate_debug_metadatas]
    assert len(model_events) > 5 * 5  # five layers
    for event in model_events:
        for metadata in event.delegate_debug_metadatas:
            moved, _, rows, threads = EVENT.unpack(bytes(metadata))
            assert moved > 0 and rows >= 1 and threads == 2
