"""Converts a quantized layer, or a model's ends, to the plain tensors of a cache entry, and back.

Integers of 4 bits are stored two per byte, the first in the low half; scales are bfloat16 if that
is exact. The rest of a layer (norms, biases) is stored as it is, because methods may change it.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from quant.measure.quality import Quality
from quant.modules import QuantizedLinear, QuantizedWeight, set_weight
from quant.weight_type import WeightType

_VALUES = ":int{}.{}.{}.{}"  # bits, group size and levels of its type; rotated
_SCALES = ":scales"
_RARE = ":rare"  # names, one a line, as bytes


def encode_layer(layer: nn.Module, rare: Sequence[str] = ()) -> dict[str, Tensor]:
    """The parameters of a layer by their names in it; a quantized one as values and scales.

    Args:
        rare: names of experts, which are stored too.
    """
    tensors = {name: parameter.detach() for name, parameter in layer.named_parameters()}
    for path, module in layer.named_modules():
        if isinstance(module, QuantizedLinear):
            tensors |= _encoded(f"{path}.weight", module.quantized_weight)
    if rare:
        tensors[_RARE] = torch.tensor(list("\n".join(rare).encode()), dtype=torch.uint8)
    return tensors


def decode_layer(layer: nn.Module, tensors: Mapping[str, Tensor]) -> list[str]:
    """Gives a layer, which may be on the meta device, the parameters of `encode_layer`; returns
    the names of its experts."""
    for name, weight in _decoded(tensors).items():
        parent, _, linear = name.removesuffix(".weight").rpartition(".")
        set_weight(layer.get_submodule(parent), linear, weight)
    for name, tensor in tensors.items():  # after the linears, which are replaced
        if ":" not in name:
            parent, _, key = name.rpartition(".")
            parameter = nn.Parameter(tensor, requires_grad=False)
            layer.get_submodule(parent).register_parameter(key, parameter)
    return bytes(tensors[_RARE].tolist()).decode().split("\n") if _RARE in tensors else []


def encode_ends(embedding: QuantizedWeight, head: QuantizedWeight) -> dict[str, Tensor]:
    """The two ends of a model; tied ends, which are one weight, only once."""
    tensors = _encoded("embedding", embedding)
    return tensors if head is embedding else tensors | _encoded("head", head)


def decode_ends(tensors: Mapping[str, Tensor]) -> tuple[QuantizedWeight, QuantizedWeight]:
    """Embedding and head of `encode_ends`."""
    decoded = _decoded(tensors)
    return decoded["embedding"], decoded.get("head", decoded["embedding"])


def encode_quality(quality: Quality, layer_errors: list[float]) -> dict[str, Tensor]:
    """What was measured, float64."""
    figures = list(quality.to_dict().values())
    return {
        "quality": torch.tensor(figures, dtype=torch.float64),
        "layer_errors": torch.tensor(layer_errors, dtype=torch.float64),
    }


def decode_quality(tensors: Mapping[str, Tensor]) -> tuple[Quality, list[float]]:
    tokens, *figures = tensors["quality"].tolist()
    return Quality(int(tokens), *figures), tensors["layer_errors"].tolist()


def _encoded(name: str, weight: QuantizedWeight) -> dict[str, Tensor]:
    kind = weight.type
    values = _two_in_a_byte(weight.values) if kind.bits == 4 else weight.values
    short = weight.scales.bfloat16()
    exact = torch.equal(short.float(), weight.scales)
    mark = _VALUES.format(kind.bits, kind.group_size, kind.levels, weight.rotated)
    return {name + mark: values, name + _SCALES: short if exact else weight.scales}


def _decoded(tensors: Mapping[str, Tensor]) -> dict[str, QuantizedWeight]:
    """The quantized ones of some tensors, by the names that they were encoded under."""
    weights = {}
    for name, tensor in tensors.items():
        path, _, mark = name.rpartition(":")
        if not mark.startswith("int"):
            continue
        *numbers, rotated = map(int, mark.removeprefix("int").split("."))
        kind = WeightType(*numbers)
        values = _one_in_a_byte(tensor) if kind.bits == 4 else tensor
        scales = tensors[path + _SCALES].float()
        weights[path] = QuantizedWeight(values, scales, kind, rotated)
    return weights


def _two_in_a_byte(values: Tensor) -> Tensor:
    """int8 (rows, columns) in -8..7, columns even, to uint8 (rows, columns / 2)."""
    nibbles = values.view(torch.uint8).bitwise_and(15)
    return nibbles[:, 0::2] | (nibbles[:, 1::2] << 4)


def _one_in_a_byte(packed: Tensor) -> Tensor:
    low, high = packed << 4, packed & 0xF0  # in the high half: shifting back keeps the sign
    return torch.stack((low, high), dim=2).flatten(1).view(torch.int8) >> 4
