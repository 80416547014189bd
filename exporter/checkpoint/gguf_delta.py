"""The gated delta rule as llama.cpp's converter stores it: its heads of values in another order, so
that those of one key head are not side by side, and its decay computed in part."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from exporter.models.spec import DeltaSpec
from quant.modules import QuantizedWeight

NAMES = {
    "attn_qkv": "linear_attn.in_proj_qkv",
    "attn_gate": "linear_attn.in_proj_z",
    "ssm_beta": "linear_attn.in_proj_b",
    "ssm_alpha": "linear_attn.in_proj_a",
    "ssm_conv1d": "linear_attn.conv1d",
    "ssm_dt.bias": "linear_attn.dt_bias",
    "ssm_a": "linear_attn.A_log",
    "ssm_norm": "linear_attn.norm",
    "ssm_out": "linear_attn.out_proj",
}
_FIELDS = {
    "linear_conv_kernel_dim": "ssm.conv_kernel",
    "linear_key_head_dim": "ssm.state_size",
    "linear_num_key_heads": "ssm.group_count",
    "linear_num_value_heads": "ssm.time_step_rank",
    "full_attention_interval": "full_attention_interval",
}
_MODULE = ".linear_attn."
_MIXED = ("in_proj_qkv.weight", "conv1d.weight")  # whose first rows are queries and keys


def computed(
    stored: Callable[[str], Any],
    so_far: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    rope_factors: Mapping[str, Tensor],
) -> Mapping[str, Any]:
    """Returns config.json's fields of the delta rule; layers beyond the model's may be listed."""
    layers = so_far.get("num_hidden_layers")
    fields = {name: stored(key) for name, key in _FIELDS.items()}
    size, heads = stored("ssm.inner_size"), fields["linear_num_value_heads"]
    if isinstance(size, int) and isinstance(heads, int) and heads > 0:
        fields["linear_value_head_dim"] = size // heads
    recurrent = stored("attention.recurrent_layers")
    if isinstance(recurrent, list) and isinstance(layers, int):
        kinds = ("full_attention", "linear_attention")
        fields["layer_types"] = [kinds[bool(one)] for one in recurrent[:layers]]
    return {name: value for name, value in fields.items() if value is not None}


class StoredDelta:
    """The tensors of delta rules of one shape, from the form in the file to Hugging Face's."""

    def __init__(self, spec: DeltaSpec, tiled: bool) -> None:
        """tiled: whether heads of values that one key head serves are apart."""
        self._spec = spec
        self._each = spec.num_value_heads // spec.num_key_heads if tiled else 1  # heads to put

    def shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns Hugging Face's shape of a tensor."""
        return (shape[0], 1, *shape[1:]) if name.endswith(f"{_MODULE}conv1d.weight") else shape

    def can_keep(self, name: str, group_size: int) -> bool:
        """Whether groups of a weight stay whole where its columns move."""
        moves = self._each > 1 and name.endswith(f"{_MODULE}out_proj.weight")
        return not moves or self._spec.value_head_dim % group_size == 0

    def tensor(self, name: str, made: Tensor) -> Tensor:
        """Returns a tensor as Hugging Face stores it."""
        if name.endswith(f"{_MODULE}A_log"):
            made = (-made.float()).log()
        return self._ordered(name, made, 1).view(self.shape(name, tuple(made.shape)))

    def integers(self, name: str, made: QuantizedWeight) -> QuantizedWeight:
        """The same of a weight that `can_keep`, and of its scales."""
        group = made.values.shape[-1] // made.scales.shape[-1]
        values, scales = made.values, made.scales
        return QuantizedWeight(
            self._ordered(name, values, 1), self._ordered(name, scales, group), made.type
        )

    def _ordered(self, name: str, made: Tensor, group: int) -> Tensor:
        """Puts the heads of values that one key head serves side by side.

        Args:
            group: how many columns of the weight are one of `made`.
        """
        _, module, part = name.partition(_MODULE)
        if not module or self._each == 1 or part == "norm.weight":
            return made
        spec = self._spec
        if part == "out_proj.weight":
            return self._swapped(made.T, spec.value_head_dim // group).T.contiguous()
        if part in _MIXED:
            keys = 2 * spec.num_key_heads * spec.key_head_dim
            return torch.cat((made[:keys], self._swapped(made[keys:], spec.value_head_dim)))
        return self._swapped(made, spec.value_head_dim if part == "in_proj_z.weight" else 1)

    def _swapped(self, rows: Tensor, size: int) -> Tensor:
        heads = rows.unflatten(0, (self._each, self._spec.num_key_heads, size))
        return heads.transpose(0, 1).flatten(0, 2)
