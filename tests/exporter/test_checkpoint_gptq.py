"""Checkpoints of GPTQ: the versions of its format, zero points and the order of inputs."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.packed_checkpoints import (
    GPTQ,
    Rounded,
    Tensors,
    assert_read,
    gptq,
    rounded,
    symmetric,
    write,
)

from exporter.checkpoint import open_checkpoint
from exporter.errors import ExportError


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("layout", ["gptq", "gptq_v2"])
@pytest.mark.parametrize("group_size", [32, -1])
@pytest.mark.parametrize("reordered", [False, True])
def test_gptq(tmp_path: Path, bits: int, layout: str, group_size: int, reordered: bool) -> None:
    def pack(rows: int, columns: int, seed: int) -> tuple[Rounded, Tensors]:
        weight = rounded(rows, columns, bits, group_size, seed)
        order = torch.randperm(columns, generator=torch.Generator().manual_seed(seed))
        if reordered:
            weight = Rounded(weight.values, weight.zeros, weight.scales, weight.groups[order])
        return weight, gptq(weight, bits, int(layout == "gptq"), order if reordered else None)

    config = {"quant_method": "gptq", "bits": bits, "group_size": group_size}
    assert_read(tmp_path, write(tmp_path, {**config, "checkpoint_format": layout}, pack))


def test_inputs_in_another_order_that_no_tensor_tells(tmp_path: Path) -> None:
    def pack(rows: int, columns: int, seed: int) -> tuple[Rounded, Tensors]:
        weight = rounded(rows, columns, 4, 32, seed)
        return weight, gptq(weight, 4, 1, None)

    write(tmp_path, {**GPTQ, "desc_act": True}, pack)
    with pytest.raises(ExportError, match=r"do not fit quantization_config \(g_idx is missing\)"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize(("layout", "offset"), [("gptq", 0), ("gptq", 1), ("gptq_v2", 1)])
def test_sym_tells_how_zero_points_are_stored(
    tmp_path: Path, bits: int, layout: str, offset: int
) -> None:
    def pack(rows: int, columns: int, seed: int) -> tuple[Rounded, Tensors]:
        weight = symmetric(rounded(rows, columns, bits, 32, seed), bits)
        return weight, gptq(weight, bits, offset, None)

    config = {**GPTQ, "bits": bits, "sym": True, "checkpoint_format": layout}
    assert_read(tmp_path, write(tmp_path, config, pack))


def test_zero_points_that_sym_contradicts(tmp_path: Path) -> None:
    def pack(rows: int, columns: int, seed: int) -> tuple[Rounded, Tensors]:
        weight = symmetric(rounded(rows, columns, 4, 32, seed), 4)
        weight.zeros[3, -1] = 11
        return weight, gptq(weight, 4, 1, None)

    write(tmp_path, {**GPTQ, "sym": True}, pack)
    with pytest.raises(ExportError) as raised:
        open_checkpoint(tmp_path).tensor("model.layers.0.mlp.up_proj.weight")
    assert str(raised.value) == (
        f"{tmp_path}: model.layers.0.mlp.up_proj.weight is sym in quantization_config, and has a "
        "zero point of 11, not 8; set sym to false if its zero points are right."
    )


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_1_taken_from_complete_words_of_zero_points(tmp_path: Path, bits: int) -> None:
    def pack(rows: int, columns: int, seed: int) -> tuple[Rounded, Tensors]:
        weight = rounded(rows, columns, bits, 32, seed)
        weight.zeros[:, ::2] *= torch.arange(rows)[:, None] % 3 > 0  # some are 0
        weight.zeros[-1] = 1  # the last of a word has nothing to borrow from
        parts = gptq(weight, bits, 0, None)
        ones = sum(1 << place for place in range(0, 32, bits))
        lowered = (parts["qzeros"].long() - ones).to(torch.int32)
        return weight, {**parts, "qzeros": lowered}

    assert_read(tmp_path, write(tmp_path, {**GPTQ, "bits": bits, "sym": False}, pack))


@pytest.mark.parametrize("key", ["format", "checkpoint_format"])
def test_either_key_names_gptqs_version(tmp_path: Path, key: str) -> None:
    def pack(rows: int, columns: int, seed: int) -> tuple[Rounded, Tensors]:
        weight = rounded(rows, columns, 4, 32, seed)
        return weight, gptq(weight, 4, 0, None)

    assert_read(tmp_path, write(tmp_path, {**GPTQ, key: "gptq_v2"}, pack))


def test_groups_that_do_not_exist(tmp_path: Path) -> None:
    def pack(rows: int, columns: int, seed: int) -> tuple[Rounded, Tensors]:
        weight = rounded(rows, columns, 4, 32, seed)
        return weight, gptq(weight, 4, 1, torch.arange(columns))

    config = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True}
    write(tmp_path, config, pack)
    path, module = tmp_path / "model.safetensors", "model.layers.0.mlp.down_proj"
    tensors = load_file(path)
    groups = tensors[f"{module}.g_idx"]
    last = int(groups.max())
    for wrong in (-1, last + 1, 2**31 - 1):
        groups[5] = wrong
        save_file(tensors, path)
        with pytest.raises(ExportError) as raised:
            open_checkpoint(tmp_path).tensor(f"{module}.weight")
        assert str(raised.value) == (
            f"{tmp_path}: {module}.weight has an input in group {wrong}, but its groups are 0 to "
            f"{last}; download the files again."
        )
