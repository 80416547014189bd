"""Every delegate on the model that ships with the package and on stories260K, by the one pipeline:
all linears inside, and the numbers checked by what this machine has to run each with."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from executorch.backends.vulkan.serialization.vulkan_graph_serialize import (
    extract_vk_flatbuffer,
    flatbuffer_to_vk_graph,
)
from executorch.exir._serialize._program import deserialize_pte_binary
from support.core_ml_evaluator import CoreMLEvaluator
from support.core_ml_program import read_core_ml
from support.exported import Quiet, feed
from support.mlx_evaluator import MLXEvaluator, MLXProgram
from support.small_models import float_twin, round_rope
from torch import Tensor

import exporter.capture.program
from delegates import get_delegate
from exporter.capture.program import capture
from exporter.models.decoder import CausalLM
from exporter.options import ExportOptions
from exporter.pipeline import ExportResult, export_model
from quant.scheme import Scheme

pytestmark = pytest.mark.soak

CONTEXT = 64
LENGTHS = [11, 1, 1, 2, 1]
# The evaluators and the models differ in the order of float32 additions alone.
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Case:
    """One export, with the eager model as it went to be captured."""

    result: ExportResult
    model: CausalLM


def export(delegate: str, name: str, shared_data: Path, directory: Path) -> Case:
    """In 4 bits and calls of several lengths, or in float and single tokens if it takes no more."""
    limits = get_delegate(delegate).LIMITS
    if limits.missing() is not None:
        pytest.skip(str(limits.missing()))
    kept: list[CausalLM] = []

    def keeping_capture(model: CausalLM, *lengths: int) -> torch.export.ExportedProgram:
        kept.append(copy.deepcopy(model))
        return capture(model, *lengths)

    is_stories = name == "stories260K"
    options = ExportOptions(
        model=str(shared_data / name) if is_stories else name,
        out=directory / "model.pte",
        scheme=Scheme("rtn4" if 4 in limits.weight_bits else "none"),
        calibration=shared_data / "text" / "tinystories_calibration.txt" if is_stories else None,
        max_context_len=CONTEXT,
        max_seq_len=None if limits.dynamic else 1,
        delegate=delegate,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporter.capture.program, "capture", keeping_capture)
        result = export_model(options, Quiet())
    delegation = result.delegation
    layers = kept[0].config.num_hidden_layers
    assert delegation.linears == delegation.linears_delegated == 7 * layers + 1
    return Case(result, kept[0])


def difference(
    case: Case, step: Callable[[Tensor, Tensor], Tensor], stored: torch.dtype | None
) -> float:
    """How far a program is from the model with the same integers and activations in float."""
    twin = float_twin(case.model, stored)
    twin.setup_cache(CONTEXT)
    if stored is not None:
        round_rope(twin, stored)
    tokens = torch.arange(1, 1 + sum(LENGTHS))
    want = feed(twin, tokens, LENGTHS)
    spread = (want - want.mean(-1, keepdim=True)).norm()
    return ((want - feed(step, tokens, LENGTHS)).norm() / spread).item()


def check_in_this_runtime(case: Case, directory: Path) -> None:
    agreement = case.result.agreement
    assert agreement is not None and agreement.error <= agreement.tolerance


def check_core_ml(case: Case, directory: Path) -> None:
    evaluator = CoreMLEvaluator(read_core_ml(case.result.out, directory / "core_ml"), wide=True)

    def step(tokens: Tensor, input_pos: Tensor) -> Tensor:
        inputs = tokens.numpy().astype(np.int32), input_pos.numpy().astype(np.int32)
        (logits,) = evaluator(tokens=inputs[0], input_pos=inputs[1])
        return torch.from_numpy(logits.astype(np.float32))

    assert case.result.delegation.calls == 1
    assert difference(case, step, torch.float16) < TOLERANCE


def check_mlx(case: Case, directory: Path) -> None:
    assert case.result.delegation.calls == 1
    assert difference(case, MLXEvaluator(MLXProgram(case.result.out)), None) < TOLERANCE


def check_vulkan(case: Case, directory: Path) -> None:
    program = deserialize_pte_binary(case.result.out.read_bytes()).program
    (delegate,) = program.execution_plan[0].delegates
    blob = program.backend_delegate_data[delegate.processed.index].data
    graph = flatbuffer_to_vk_graph(extract_vk_flatbuffer(blob))
    names = [call.name for call in graph.chain]
    layers = case.model.config.num_hidden_layers
    assert names.count("et_vk.linear_dq8ca_q4gsw.default") == 7 * layers
    assert names.count("sdpa_with_kv_cache.default") + names.count("llama.custom_sdpa.default") in (
        layers,
        2 * layers,
    )


def check_one_call(case: Case, directory: Path) -> None:
    assert case.result.delegation.calls == 1 and case.result.delegation.left == {}
    assert case.result.agreement is None


CHECKS = {
    "cpu": check_in_this_runtime,
    "xnnpack": check_in_this_runtime,
    "tosa": check_in_this_runtime,
    "coreml": check_core_ml,
    "mps": check_one_call,  # its kernels are run in tests of their own
    "mlx": check_mlx,
    "vulkan": check_vulkan,
}


@pytest.mark.parametrize("name", ["stories260K", "llama3"])
@pytest.mark.parametrize("delegate", CHECKS)
def test_lowered_and_checked(
    delegate: str, name: str, shared_data: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if delegate == "cpu":
        request.getfixturevalue("cpp_build")
    CHECKS[delegate](export(delegate, name, shared_data, tmp_path), tmp_path)
