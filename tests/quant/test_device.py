"""Quantizing on another device: everything is brought there and back, and no layers are mixed."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.device_runs import CONFIG, FLOAT, SHORT, Run, assert_same
from support.quantization import content
from support.second_device import SECOND, MixedDevices, SecondDevice
from support.small_models import ModelWeights
from support.tiers import soaked
from support.torchrun import Starter, entries, finish
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import quant.layers.block_solver
import quant.layers.stream
import quant.layers.walk
import quant.rounding.solve
from exporter.models.context import Context
from exporter.models.decoder import CausalLM
from exporter.models.spec import DecoderSpec
from quant.cache.store import Cache
from quant.errors import QuantError
from quant.machine.device import HOST, choose_device, find_device
from quant.machine.distributed import joined
from quant.machine.resources import Resources
from quant.machine.spill import Spill
from quant.method import DRIFTS
from quant.progress import Progress
from quant.quantize import quantize
from quant.rounding.gptq import InverseFactor, gram
from quant.scheme import SCHEMES, Scheme
from quant.weight_type import INT8

ROOT = Path(__file__).resolve().parents[2]
GPUS = torch.cuda.device_count() if torch.cuda.is_available() else 0


@pytest.fixture(autouse=True)
def plain_arithmetic(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Attention is made of its parts on any device, for the fused one is the CPU's; so are its
    products of two parts, and its sums of integers."""
    monkeypatch.setattr("quant.machine.products._rounds", lambda: False)
    monkeypatch.setattr("quant.rounding.solve.integers_are_fast", lambda: False)
    with sdpa_kernel(SDPBackend.MATH):
        yield


def run_second(scheme: Scheme, resources: Resources, config: DecoderSpec = CONFIG) -> Run:
    """The same on a second device."""
    with SecondDevice():
        return Run(scheme, replace(resources, device=SECOND), config)


BASELINES = ("gptaq", "qronos")  # for comparison alone
METHODS = [
    *(replace(SHORT, drift=drift) for drift in DRIFTS if drift not in BASELINES),
    replace(SHORT, importance="diagonal", act_order=False, int8_statistics=False),
    replace(SHORT, scales="closed"),
    replace(SHORT, rotation="hadamard"),
]
WIDE = dict.fromkeys(("model.layers.0.mlp.down_proj", "model.layers.1.self_attn.qkv_proj"), INT8)


@pytest.mark.check
@pytest.mark.parametrize(
    "scheme",
    [
        *map(Scheme, SCHEMES),
        *(Scheme("gptq4", method=method) for method in METHODS),
        *soaked(Scheme("gptq4", method=replace(SHORT, drift=drift)) for drift in BASELINES),
        Scheme("gptq4", method=SHORT).with_types(WIDE),
    ],
)
def test_another_device_computes_the_same_from_its_own_tensors(scheme: Scheme) -> None:
    wanted = Run(scheme, Resources())
    with SecondDevice() as second:
        run = Run(scheme, Resources(device=SECOND))
    on_host = {name for name, device in second.work if device == "cpu"}
    rotated = scheme.choice.folds_rotation  # which is done in float64, as weights are read
    assert on_host == ({"mm", "bmm"} if rotated else set())
    assert second.work["mm", "second"] > 0
    assert_same(run, wanted)


@pytest.mark.check
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("head_bits", [4, *soaked([8])])
def test_spilled_states_come_back_to_the_device(tied: bool, head_bits: int, tmp_path: Path) -> None:
    config = replace(CONFIG, tie_word_embeddings=tied)
    scheme = Scheme("gptq4", head_bits=head_bits, method=SHORT)
    wanted = Run(scheme, Resources(), config)
    assert_same(run_second(scheme, Resources(spill=Spill(tmp_path)), config), wanted)


def forgetful_gram(inputs: object, columns: int, device: torch.device) -> Tensor:
    return gram(inputs, columns)  # type: ignore[arg-type]


def forgetful_context(device: torch.device, model: CausalLM, seq_len: int) -> Context:
    return model.context(seq_len)


def forgetful_diagonal(factor: InverseFactor) -> Tensor:
    diagonal = torch.empty(len(factor.order))
    diagonal[factor.order] = factor.upper.square().sum(dim=0) / factor.mean
    return diagonal


@pytest.mark.parametrize(
    ("place", "name", "forgetful"),
    [
        (quant.rounding.solve, "gram", forgetful_gram),
        (quant.layers.stream, "context_on", forgetful_context),
        (InverseFactor, "inverse_diagonal", forgetful_diagonal),
        (quant.layers.walk, "move", lambda module, device: None),
        (quant.layers.block_solver, "statistics", None),
    ],
)
def test_a_tensor_on_the_wrong_device_is_an_error(
    place: object,
    name: str,
    forgetful: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the tests above rest on: one factory that forgets its device does not pass."""
    if forgetful is None:
        original = getattr(place, name)
        forgetful = lambda *args: original(*args[:-1], HOST)  # noqa: E731
    monkeypatch.setattr(place, name, forgetful)
    Run(Scheme("gptq4"), Resources())
    with pytest.raises(MixedDevices, match="of tensors on two devices"):
        run_second(Scheme("gptq4"), Resources())


@pytest.mark.check
def test_a_run_resumes_with_layers_of_its_own_kind_of_device(tmp_path: Path) -> None:
    cache, scheme = Cache(tmp_path), Scheme("gptq4", method=SHORT)
    resources = Resources(cache)
    whole = Run(scheme, resources)
    by_host = set(entries(tmp_path))
    assert whole.made == 2 and len(by_host) == 3  # and what was measured
    assert run_second(scheme, resources).made == 0  # all layers are there, whoever has made them
    remove_last(cache, by_host)
    alone = run_second(scheme, resources)
    assert alone.made == 2  # not one layer of the one and one of the other
    by_second = set(entries(tmp_path)) - by_host
    assert len(by_second) == 3
    remove_last(cache, by_second)
    again = run_second(scheme, resources)
    assert again.made == 1 and set(entries(tmp_path)) >= by_second
    assert_same(again, whole)
    assert Run(scheme, resources).made == 1
    assert set(entries(tmp_path)) == by_host | by_second


def remove_last(cache: Cache, names: set[str]) -> None:
    """Removes the last layer's entry, of these."""
    for entry in cache.entries():
        path = cache.directory / "layers" / f"{entry.key}.safetensors"
        if path.name in names and entry.what.startswith("layer 1 of"):
            path.unlink()


@pytest.mark.soak
def test_processes_share_work_on_devices_of_their_own(tmp_path: Path) -> None:
    """And gradients are computed there, for which a process of its own is needed."""
    program = ROOT / "tests" / "support" / "second_device_processes.py"
    arguments = ["torch.distributed.run", "--nproc-per-node", "2", str(program), str(tmp_path)]
    process = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.returncode == 0, process.stderr
    assert sorted(process.stdout.splitlines()) == ["rank 0: the same", "rank 1: the same"]


def test_full_memory_is_reported_in_a_sentence() -> None:
    def full(progress: Progress) -> None:
        raise torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8 GiB."
        )

    with torch.device("meta"):
        model = CausalLM(CONFIG)
    with pytest.raises(QuantError) as error:
        quantize(model, Scheme("rtn4"), ModelWeights(FLOAT), progress=full)
    assert str(error.value) == (
        "the GPU has too little memory free (CUDA out of memory. Tried to allocate 2.00 GiB); free "
        "some, or take --device cpu."
    )


@pytest.mark.parametrize(
    ("name", "gpus", "rank", "count", "chosen"),
    [
        ("auto", 0, 0, 1, "cpu"),
        ("auto", 0, 3, 4, "cpu"),
        ("auto", 2, 0, 1, "cuda:0"),
        ("auto", 4, 3, 4, "cuda:3"),
        ("cpu", 2, 1, 4, "cpu"),
        ("cuda", 2, 1, 2, "cuda:1"),
        ("cuda:1", 2, 0, 1, "cuda:1"),
    ],
)
def test_the_device_that_is_chosen(
    name: str, gpus: int, rank: int, count: int, chosen: str
) -> None:
    assert choose_device(name, gpus, rank, count) == chosen


@pytest.mark.parametrize(
    ("name", "gpus", "count", "sentence"),
    [
        ("gpu", 1, 1, "--device 'gpu' is not supported; it must be auto, cpu, cuda or cuda:N."),
        (
            "cuda:x",
            1,
            1,
            "--device 'cuda:x' is not supported; it must be auto, cpu, cuda or cuda:N.",
        ),
        (
            "cuda",
            0,
            1,
            f"--device cuda needs a GPU, but PyTorch {torch.__version__} finds none here; take "
            "--device cpu, or install a PyTorch that supports this machine's GPU.",
        ),
        ("cuda:2", 2, 1, "--device cuda:2 is not there; the GPUs here are cuda:0 to cuda:1."),
        (
            "auto",
            1,
            2,
            "2 processes cannot have a GPU each where there are 1; start as many as there are "
            "GPUs, or take --device cpu.",
        ),
        (
            "cuda:1",
            2,
            2,
            "--device cuda:1 is one GPU, and there are 2 processes; write cuda, and each takes its "
            "own.",
        ),
    ],
)
def test_devices_that_do_not_exist(name: str, gpus: int, count: int, sentence: str) -> None:
    with pytest.raises(QuantError) as error:
        choose_device(name, gpus, 0, count)
    assert str(error.value) == sentence


@pytest.mark.parametrize("command", ["exporter", "quant"])
def test_the_commands_refuse_an_unknown_device(command: str, tmp_path: Path) -> None:
    options = ["run"] if command == "quant" else ["--out", str(tmp_path / "model.pte")]
    arguments = [command, *options, "llama3", "--device", "tpu"]
    process = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert process.returncode == 2
    assert process.stderr == (
        "Error: --device 'tpu' is not supported; it must be auto, cpu, cuda or cuda:N.\n"
    )


@pytest.mark.skipif(
    torch.distributed.is_nccl_available(), reason="this PyTorch has NCCL, and nothing to refuse"
)
def test_gpus_without_nccl_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    sentence = "has no NCCL, by which GPUs share work; take --device cpu, or start one process."
    with pytest.raises(QuantError, match=re.escape(sentence)), joined(torch.device("cuda", 0)):
        pass


@pytest.mark.skipif(GPUS == 0, reason="no GPU here: what a real one computes is not checked")
@pytest.mark.parametrize("name", SCHEMES)
def test_a_gpu_quantizes_as_well_as_the_cpu(name: str, tmp_path: Path) -> None:
    scheme = Scheme(name)
    wanted = Run(scheme, Resources())
    run = Run(scheme, Resources(Cache(tmp_path), device=find_device("cuda")))
    ours, theirs = content(run.model), content(wanted.model)
    assert ours.keys() == theirs.keys()
    assert all(tensor.device == HOST for tensor in ours.values())
    assert_same(Run(scheme, Resources(Cache(tmp_path))), run)  # from the cache
    quality, reference = run.report.quality, wanted.report.quality
    assert quality is not None and reference is not None
    # An integer at the edge between two may fall to the other side, and others follow: as good a
    # choice as the CPU's, so that KL stays within what another choice of text would change.
    assert abs(quality.kl - reference.kl) <= reference.kl_error + 1e-6


@pytest.mark.skipif(GPUS < 2, reason="fewer than two GPUs here: NCCL is not run")
def test_two_gpus_are_bit_identical_to_one(shared_data: Path, tmp_path: Path) -> None:
    starter = Starter(
        shared_data / "stories260K", shared_data / "text" / "tinystories_calibration.txt"
    )
    for count in (1, 2):
        finish(starter.start(count, tmp_path / str(count), "--device", "cuda"))
    assert entries(tmp_path / "1") == entries(tmp_path / "2") != {}
