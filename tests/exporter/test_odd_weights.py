"""Weights that real checkpoints sometimes hold, through the whole export: zeros and outliers."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.exported import export_for_tests
from support.tiers import soaked

from exporter.errors import ExportError
from exporter.file.agreement import Reference, compare, require_agreement
from exporter.file.pte import verify
from exporter.options import ExportOptions
from quant.scheme import Scheme


@pytest.mark.check
@pytest.mark.parametrize(
    "scheme", [Scheme("gptq4", head_bits=4), *soaked([Scheme("rtn8")])], ids=str
)
def test_zero_rows_and_outliers_export(
    one_layer_checkpoint: Path, calibration_text: Path, tmp_path: Path, scheme: Scheme
) -> None:
    directory = tmp_path / "checkpoint"
    shutil.copytree(one_layer_checkpoint, directory)
    tensors = load_file(directory / "model.safetensors")
    tensors["model.embed_tokens.weight"][511] = 0  # a token never seen
    tensors["model.layers.0.mlp.up_proj.weight"][5] = 0
    tensors["model.layers.0.mlp.down_proj.weight"][:, 5] = 0
    tensors["model.layers.0.mlp.gate_proj.weight"][7] = 1e-39  # below float32's normal numbers
    tensors["model.layers.0.self_attn.v_proj.weight"][3, 3] = 50.0
    save_file(tensors, directory / "model.safetensors")
    exported = export_for_tests(
        ExportOptions(
            model=str(directory),
            out=tmp_path / "model.pte",
            scheme=scheme,
            calibration=calibration_text,
            calibration_tokens=1024,
            max_context_len=64,
        )
    )
    verify(exported.path, everything=True)
    agreement = exported.result.agreement
    assert agreement is not None and agreement.error <= agreement.tolerance


def test_logits_without_deviation_agree_with_themselves_alone() -> None:
    """A model of zeros gives 0 for every token."""
    zeros = torch.zeros(1, 8)
    reference = Reference(torch.tensor([1]), (1,), zeros, 0.03)
    agreement = compare(reference, lambda tokens, at: zeros.clone())
    assert (agreement.error, agreement.kl, agreement.top1) == (0, 0, 1)
    require_agreement(agreement)
    with pytest.raises(ExportError, match="differ from the model's by inf of their deviation"):
        require_agreement(compare(reference, lambda tokens, at: zeros + 1))


def test_one_other_choice_of_an_expert_is_no_fault_of_a_mixture() -> None:
    logits = torch.randn(8, 64, generator=torch.Generator().manual_seed(2))
    mixture = Reference(torch.arange(8), (1,) * 8, logits, 0.1, mixture=True)

    def off(shares: torch.Tensor) -> Iterator[torch.Tensor]:
        """The logits of each call, moved by a share of their deviation."""
        return iter((logits + shares[:, None] * logits.roll(1, 0)).split(1))

    flipped = off(torch.tensor([0.02] * 3 + [1.0] + [0.02] * 4))
    require_agreement(compare(mixture, lambda tokens, at: next(flipped)))
    flipped = off(torch.tensor([0.02] * 3 + [1.0] + [0.02] * 4))
    with pytest.raises(ExportError, match="rounding explains only 0.1"):
        require_agreement(
            compare(replace(mixture, mixture=False), lambda tokens, at: next(flipped))
        )
    moved = off(torch.full((8,), 0.15))
    with pytest.raises(ExportError, match=r"differ from the model's by 0\.1"):
        require_agreement(compare(mixture, lambda tokens, at: next(moved)))
