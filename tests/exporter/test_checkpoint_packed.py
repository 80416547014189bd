"""Checkpoints of packed integers: every layout gives the floats that its integers stand for."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.exported import Quiet
from support.packed_checkpoints import (
    AUTO_ROUND,
    AWQ,
    COMPRESSED,
    GPTQ,
    WEIGHTS,
    Rounded,
    Tensors,
    assert_read,
    awq,
    compressed,
    gptq,
    rounded,
    symmetric,
    write,
)

from exporter.catalogue.find import find_checkpoint
from exporter.checkpoint import open_checkpoint
from exporter.errors import ExportError
from exporter.options import ExportOptions
from quant.weight_type import INT8, INT8_GROUPS, WeightType

NF4 = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}


@pytest.mark.parametrize("group_size", [32, -1])
def test_awq(tmp_path: Path, group_size: int) -> None:
    def pack(rows: int, columns: int, seed: int) -> tuple[Rounded, Tensors]:
        weight = rounded(rows, columns, 4, group_size, seed)
        return weight, awq(weight)

    config = {"quant_method": "awq", "bits": 4, "group_size": group_size, "version": "gemm"}
    assert_read(tmp_path, write(tmp_path, config, pack))


@pytest.mark.parametrize(("bits", "packed"), [(4, True), (8, True), (8, False)])
@pytest.mark.parametrize("group_size", [32, -1])
@pytest.mark.parametrize("symmetric", [True, False])
def test_compressed_tensors(
    tmp_path: Path, bits: int, packed: bool, group_size: int, symmetric: bool
) -> None:
    def pack(rows: int, columns: int, seed: int) -> tuple[Rounded, Tensors]:
        weight = rounded(rows, columns, bits, group_size, seed)
        if symmetric:
            middle = torch.full_like(weight.zeros, 2 ** (bits - 1))
            weight = Rounded(weight.values, middle, weight.scales, weight.groups)
        return weight, compressed(weight, bits, packed, symmetric)

    weights = {
        "num_bits": bits,
        "type": "int",
        "symmetric": symmetric,
        "strategy": "channel" if group_size == -1 else "group",
        "group_size": None if group_size == -1 else group_size,
    }
    config = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized" if packed else "int-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        "ignore": ["lm_head"],
    }
    assert_read(tmp_path, write(tmp_path, config, pack))


class Floats:
    """A weight of 8-bit floats, in the place of a Rounded one."""

    def __init__(self, rows: int, columns: int, seed: int) -> None:
        random = torch.Generator().manual_seed(seed)
        self.values = torch.randn(rows, columns, generator=random).to(torch.float8_e4m3fn)
        self.scales = torch.rand(rows, 1, generator=random)

    def floats(self) -> torch.Tensor:
        return self.values.float() * self.scales


def test_compressed_tensors_of_several_groups(tmp_path: Path) -> None:
    """By an exact name, a regular expression (before the class), and a class; one of floats."""

    def pack(rows: int, columns: int, index: int) -> tuple[Any, Tensors]:
        if index == 2:  # q_proj
            weight = rounded(rows, columns, 8, -1, index)
            return weight, compressed(weight, 8, False, False)
        if index == 9:  # down_proj
            numbers = Floats(rows, columns, index)
            return numbers, {"weight": numbers.values, "weight_scale": numbers.scales}
        bits, group_size = (8, 32) if index == 4 else (4, 16)  # v_proj
        weight = rounded(rows, columns, bits, group_size, index)
        return weight, compressed(weight, bits, True, False)

    def group(targets: list[str], layout: str, **weights: object) -> dict[str, Any]:
        return {"targets": targets, "format": layout, "weights": {"type": "int", **weights}}

    groups = {
        "a": group(["Linear"], "pack-quantized", num_bits=4, group_size=16),
        "b": group(["re:.*v_proj$"], "pack-quantized", num_bits=8, group_size=32),
        "c": group(["model.layers.0.self_attn.q_proj"], "int-quantized", num_bits=8),
        "d": group(["re:.*down_proj"], "float-quantized", num_bits=8) | {"weights": {"a": 1}},
    }
    config = {**COMPRESSED, "format": "mixed-precision", "config_groups": groups}
    assert_read(tmp_path, write(tmp_path, config, pack))


def test_gptq_of_several_sizes(tmp_path: Path) -> None:
    def pack(rows: int, columns: int, index: int) -> tuple[Rounded, Tensors]:
        bits, group_size = (8, -1) if index == 2 else (4, 32)
        weight = rounded(rows, columns, bits, group_size, index)
        return weight, gptq(weight, bits, 1, weight.groups)

    rules = {"+:.*q_proj": {"bits": 8, "group_size": -1}, "-:lm_head": {}}
    assert_read(tmp_path, write(tmp_path, {**GPTQ, "sym": False, "dynamic": rules}, pack))


def test_auto_round_of_several_sizes(tmp_path: Path) -> None:
    def pack(rows: int, columns: int, index: int) -> tuple[Rounded, Tensors]:
        bits, group_size = (8, -1) if index == 2 else (4, 32)
        weight = rounded(rows, columns, bits, group_size, index)
        return weight, gptq(weight, bits, 1, None)

    own = {"model.layers.0.self_attn.q_proj": {"bits": 8, "group_size": -1}, "x": {"bits": 16}}
    config = {**AUTO_ROUND, "sym": False, "extra_config": own}
    assert_read(tmp_path, write(tmp_path, config, pack))


def test_auto_round_in_the_layout_of_awq(tmp_path: Path) -> None:
    config = {**AUTO_ROUND, "packing_format": "auto_round:auto_awq"}
    assert_read(tmp_path, write(tmp_path, config, pack_awq))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"data_type": "mx_fp"}, "data_type 'mx_fp', where int is read"),
        ({"act_bits": 8}, "act_bits 8, where 16 is read"),
        (
            {"packing_format": "auto_round:fp8"},
            "packing_format 'auto_round:fp8', where auto_round:",
        ),
        ({"extra_config": {".*q_proj": {}}}, "'.*q_proj' in extra_config, which is no module's"),
    ],
)
def test_what_auto_round_packs_otherwise(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    write(tmp_path, {**AUTO_ROUND, **more}, pack_awq)
    with pytest.raises(ExportError, match=re.escape(f"of auto-round has {said}")):
        open_checkpoint(tmp_path)


class Nf4:
    """A weight of bitsandbytes, in the place of a Rounded one: blocks of 32 numbers."""

    def __init__(self, rows: int, columns: int, seed: int) -> None:
        random = torch.Generator().manual_seed(seed)
        self.shape = rows, columns
        self.map = torch.rand(16, generator=random)
        self.codes = torch.randint(0, 16, (rows * columns,), generator=random)
        self.largest = torch.rand(rows * columns // 32, generator=random)

    def floats(self) -> torch.Tensor:
        return (self.map[self.codes].view(-1, 32) * self.largest[:, None]).reshape(self.shape)

    def parts(self) -> Tensors:
        state = {"quant_type": "nf4", "blocksize": 32, "dtype": "float32", "shape": self.shape}
        pairs = self.codes.view(-1, 2)
        return {
            "weight": (pairs[:, :1] * 16 + pairs[:, 1:]).to(torch.uint8),
            "weight.absmax": self.largest,
            "weight.quant_map": self.map,
            "weight.quant_state.bitsandbytes__nf4": torch.tensor(
                list(json.dumps(state).encode()), dtype=torch.uint8
            ),
        }


def test_nf4(tmp_path: Path) -> None:
    def pack(rows: int, columns: int, seed: int) -> tuple[Any, Tensors]:
        weight = Nf4(rows, columns, seed)
        return weight, weight.parts()

    assert_read(tmp_path, write(tmp_path, NF4, pack))
    assert open_checkpoint(tmp_path).notes == ()


@pytest.mark.parametrize("config", [GPTQ, AWQ, COMPRESSED, NF4, {"quant_method": "fp8"}, None])
def test_floats_beside_a_config_of_integers_are_told(
    tmp_path: Path, config: dict[str, Any] | None
) -> None:
    """As merging tools leave them: they store floats, and keep the config of what they read."""

    def pack(rows: int, columns: int, seed: int) -> tuple[Rounded, Tensors]:
        weight = rounded(rows, columns, 4, 32, seed)
        return weight, {"weight": weight.floats()}

    floats = write(tmp_path, config or {}, pack)
    assert_read(tmp_path, floats)
    told = any("weights beside it are floats" in note for note in open_checkpoint(tmp_path).notes)
    assert told == (config is not None)


@pytest.mark.parametrize("activations", [{"num_bits": 8, "dynamic": True}, None])
def test_rounded_activations_are_told(tmp_path: Path, activations: object) -> None:
    group = {"weights": WEIGHTS, "input_activations": activations}

    def pack(rows: int, columns: int, seed: int) -> tuple[Rounded, Tensors]:
        weight = symmetric(rounded(rows, columns, 4, 32, seed), 4)
        return weight, compressed(weight, 4, True, True)

    write(tmp_path, {**COMPRESSED, "config_groups": {"a": group}}, pack)
    options = ExportOptions(model=str(tmp_path), out=tmp_path / "model.pte")
    listener = Quiet()
    find_checkpoint(options, listener)
    assert any("(input_activations)" in note for note in listener.notes) == bool(activations)


LINEARS = [f"self_attn.{name}_proj" for name in "qkvo"]
LINEARS += [f"mlp.{name}_proj" for name in ("gate", "up", "down")]


@pytest.mark.parametrize(
    ("bits", "group_size", "type"),
    [
        (2, 32, WeightType(4, 32, 1)),
        (4, 32, WeightType(4, 32, 1)),
        (4, -1, WeightType(4, 64, 1)),  # a row's scale for each of its groups
        (8, 32, INT8_GROUPS),
        (8, -1, INT8),
    ],
)
def test_symmetric_integers_are_kept(
    tmp_path: Path, bits: int, group_size: int, type: WeightType
) -> None:
    def pack(rows: int, columns: int, seed: int) -> tuple[Rounded, Tensors]:
        weight = symmetric(rounded(rows, columns, bits, group_size, seed), bits)
        return weight, gptq(weight, bits, 1, weight.groups)

    config = {"quant_method": "gptq", "bits": bits, "group_size": group_size}
    floats = write(tmp_path, config, pack)
    checkpoint = open_checkpoint(tmp_path)
    for linear in LINEARS:
        name = f"model.layers.0.{linear}.weight"
        kept = checkpoint.integers(name)
        wanted = floats[name]
        if linear == "mlp.down_proj" and type.group_size == 64:
            type = WeightType(4, 32, 1)  # of 96 inputs
        assert kept is not None and kept.type == type == checkpoint.kept_type(name)
        assert torch.equal(kept.dequantize()[:, : wanted.shape[1]], wanted)
        assert checkpoint.source_type(name) == f"int{bits}"
    assert checkpoint.kept_type("model.embed_tokens.weight") is None
    assert checkpoint.integers("lm_head.weight") is None
    assert checkpoint.source_type("lm_head.weight") == "float32"


def test_groups_that_the_inputs_do_not_fill_are_padded(tmp_path: Path) -> None:
    def pack(rows: int, columns: int, seed: int) -> tuple[Rounded, Tensors]:
        weight = symmetric(rounded(rows, columns, 4, 64, seed), 4)
        return weight, gptq(weight, 4, 1, None)

    floats = write(tmp_path, {"quant_method": "gptq", "bits": 4, "group_size": 64}, pack)
    name = "model.layers.0.mlp.down_proj.weight"
    kept = open_checkpoint(tmp_path).integers(name)
    assert kept is not None and kept.values.shape == (64, 128) and kept.scales.shape == (64, 2)
    assert torch.equal(kept.dequantize()[:, :96], floats[name])
    assert not kept.values[:, 96:].any()


def test_integers_that_no_format_holds(tmp_path: Path) -> None:
    """Zero points, inputs in another order and small groups are errors; scales that float16 does
    not hold are left to rounding."""
    name = "model.layers.0.self_attn.q_proj.weight"

    def asked(config: dict[str, Any], pack: Callable[[int, int, int], Any]) -> WeightType | None:
        write(tmp_path, config, pack)
        return open_checkpoint(tmp_path).kept_type(name)

    def gptq_in(group_size: int, change: Callable[[Rounded], Rounded], ordered: bool = True) -> Any:
        def pack(rows: int, columns: int, seed: int) -> tuple[Rounded, Tensors]:
            weight = change(rounded(rows, columns, 4, group_size, seed))
            return weight, gptq(weight, 4, 1, None if ordered else weight.groups.flip(0))

        return {"quant_method": "gptq", "bits": 4, "group_size": group_size}, pack

    def flipped(weight: Rounded) -> Rounded:
        weight = symmetric(weight, 4)
        return Rounded(weight.values, weight.zeros, weight.scales, weight.groups.flip(0))

    end = "which --quant keep cannot store; use --quant rtn8 or gptq4, which quantize the floats"
    for config, pack, what in (
        (AWQ, pack_awq, "asymmetric int4, with zero points"),
        (*gptq_in(32, lambda weight: weight), "asymmetric int4, with zero points"),
        (*gptq_in(32, flipped, ordered=False), r"quantized with its inputs in another order"),
        (*gptq_in(16, lambda w: symmetric(w, 4)), "in groups of 16, no multiple of 32"),
    ):
        with pytest.raises(ExportError, match=f"{name} is {what}.*{end}"):
            asked(config, pack)

    def tiny(rows: int, columns: int, seed: int) -> tuple[Rounded, Tensors]:
        weight = symmetric(rounded(rows, columns, 4, 32, seed), 4)
        small = Rounded(weight.values, weight.zeros, weight.scales.float() * 1e-9, weight.groups)
        return small, compressed(small, 4, True, True)

    assert asked(COMPRESSED, tiny) is None


def pack_awq(rows: int, columns: int, seed: int) -> tuple[Rounded, Tensors]:
    weight = rounded(rows, columns, 4, 32, seed)
    return weight, awq(weight)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"quant_method": "gptq", "bits": 3, "group_size": 32}, "bits 3, where 2, 4, 8 is read"),
        ({"quant_method": "gptq", "bits": 4}, "quantization_config lacks 'group_size'."),
        ({**AWQ, "version": "gemv"}, "version 'gemv', where gemm is read"),
        ({**AWQ, "group_size": 0}, "group_size 0, not a number of inputs"),
        ({**COMPRESSED, "format": "nvfp4-pack-quantized"}, "format 'nvfp4-pack-quantized', where"),
        ({**COMPRESSED, "config_groups": 7}, "quantization_config is not laid out as one"),
        (
            {**COMPRESSED, "transform_config": {"a": 1}},
            "transform_config {'a': 1}, which is not su",
        ),
        ({**COMPRESSED, "kv_cache_scheme": {"num_bits": 8}}, "kv_cache_scheme {'num_bits': 8}, wh"),
        ({**GPTQ, "adapter": {"rank": 8}}, "adapter {'rank': 8}, which is not supported; use the"),
        ({**GPTQ, "pack_dtype": "int16"}, "pack_dtype 'int16', where int32 is read; use the"),
        ({**GPTQ, "format": "marlin"}, "checkpoint_format 'marlin', where gptq, gptq_v2 is read"),
        (
            {**COMPRESSED, "config_groups": {"a": {"weights": {**WEIGHTS, "type": "float"}}}},
            "type 'float', where int is read",
        ),
    ],
)
def test_what_is_not_read_is_refused(tmp_path: Path, config: dict[str, Any], sentence: str) -> None:
    write(
        tmp_path,
        config,
        lambda rows, columns, seed: (r := rounded(rows, columns, 4, 32, seed), awq(r)),
    )
    with pytest.raises(ExportError) as raised:
        open_checkpoint(tmp_path)
    assert sentence in str(raised.value)


def test_the_older_name_of_quantization_config_is_refused(tmp_path: Path) -> None:
    write(tmp_path, AWQ, pack_awq)
    fields = json.loads((tmp_path / "config.json").read_text())
    fields["compression_config"] = fields.pop("quantization_config")
    (tmp_path / "config.json").write_text(json.dumps(fields))
    with pytest.raises(ExportError, match="compression_config .*'awq'.* is not supported"):
        open_checkpoint(tmp_path)


def test_parts_that_do_not_fit(tmp_path: Path) -> None:
    write(
        tmp_path,
        AWQ,
        lambda rows, columns, seed: (r := rounded(rows, columns, 4, 32, seed), awq(r)),
    )
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    name = "model.layers.0.self_attn.q_proj"
    for change in (
        {f"{name}.scales": torch.ones(1, 64, dtype=torch.float16)},
        {f"{name}.qweight": torch.ones(4, dtype=torch.int32)},
        {f"{name}.qzeros": None},
    ):
        changed = {k: v for k, v in {**tensors, **change}.items() if v is not None}
        save_file(changed, path)
        with pytest.raises(ExportError, match=f"the packed parts of {name}.weight do not fit"):
            open_checkpoint(tmp_path)
