"""Random models of a few thousand weights, quantized as an export would, and their float twins."""

import copy
from dataclasses import replace

import torch
from torch import Tensor, nn

from exporter.models.attention import Attention
from exporter.models.decoder import CausalLM
from exporter.models.norm import RMSNorm
from exporter.models.spec import DecoderSpec
from quant.modules import (
    QuantizedEmbedding,
    QuantizedLinear,
    QuantizedWeight,
    drop_activation_rounding,
)
from quant.quantize import quantize
from quant.rounding.nearest import round_groups
from quant.scheme import METHODS, Scheme
from quant.weight_type import WeightType

# As an export for a delegate that rotates no inputs.
PLAIN_RTN8 = Scheme("rtn8", whole_rows=True, method=replace(METHODS["rtn8"], rotation="none"))


class ModelWeights:
    """A model in memory as the checkpoint of another."""

    def __init__(self, model: nn.Module) -> None:
        self._tensors = dict(model.state_dict())

    def tensor(self, name: str) -> Tensor:
        return self._tensors[name]

    def integers(self, name: str) -> QuantizedWeight | None:
        """None: they are floats, which `keep` rounds to int8 in groups."""

    def load_into(self, module: nn.Module, prefix: str) -> None:
        for name, parameter in list(module.named_parameters()):
            owner, _, key = name.rpartition(".")
            stored = nn.Parameter(self.tensor(prefix + name).clone(), requires_grad=False)
            assert stored.shape == parameter.shape
            module.get_submodule(owner).register_parameter(key, stored)

    def release(self) -> None:
        """Nothing is mapped."""


def random_model(config: DecoderSpec, seed: int = 0) -> CausalLM:
    """A float model whose norms and biases are random too."""
    torch.manual_seed(seed)
    model = CausalLM(config).requires_grad_(False)
    for name, parameter in model.named_parameters():
        if name.endswith("norm.weight"):
            parameter.add_(0.3 * torch.randn(parameter.shape))
    model.model.embed_tokens.weight.mul_(0.1)  # tied, else the head would know every token
    return model.eval()


@torch.no_grad()
def quantized_model(model: CausalLM, scheme: Scheme) -> CausalLM:
    """What an export quantizes a float model to."""
    with torch.device("meta"):
        quantized = CausalLM(model.config)
    quantize(quantized, scheme, ModelWeights(model))
    return quantized.eval()


def two_levels(weight: Tensor, type: WeightType) -> QuantizedWeight:
    """A matrix rounded to 2, 3, 5 or 6 bits with scales on two levels."""
    if type.bits < 4:
        return round_groups(weight, type.bits, type.group_size, "", METHODS["rtn4"])
    half, most = 1 << type.bits - 1, 128 >> type.bits - 1
    padding = type.padded(weight.shape[1]) - weight.shape[1]
    groups = nn.functional.pad(weight, (0, padding)).unflatten(1, (-1, type.group_size))
    ideal = groups.abs().amax(dim=2) / half
    row_scales = (ideal.amax(dim=1, keepdim=True) / most).bfloat16().float()
    scales = (ideal / row_scales).ceil().clamp(1, most) * row_scales
    values = (groups / scales[..., None]).round().clamp(-half, half - 1)
    return QuantizedWeight(values.flatten(1).to(torch.int8), scales, type)


def with_two_levels(model: nn.Module, type: WeightType) -> None:
    """Rounds every quantized matrix again, as two_levels() does; what is tied stays so."""
    known: dict[int, QuantizedWeight] = {}
    for module in model.modules():
        if isinstance(module, QuantizedLinear | QuantizedEmbedding):
            key = module.values.data_ptr()
            if key not in known:
                width = getattr(module, "in_features", None) or module.embedding_dim
                known[key] = two_levels(module.quantized_weight.dequantize()[:, :width], type)
            module.values, module.scales = known[key].values, known[key].scales
            module.weight_type, module.rotated = type, 0


@torch.no_grad()
def float_twin(model: CausalLM, dtype: torch.dtype | None = None) -> CausalLM:
    """The same weights as floats, without any rounding of activations.

    Args:
        dtype: round every stored number to this type first, scales and not their products.
    """

    def stored(x: Tensor) -> Tensor:
        return x if dtype is None else x.to(dtype).float()

    twin = copy.deepcopy(model)
    for module in twin.modules():
        if isinstance(module, QuantizedEmbedding):
            module.scales = stored(module.scales)
        elif isinstance(module, Attention):
            module.scale = stored(torch.tensor(module.scale)).item()
        elif isinstance(module, RMSNorm):  # of which Core ML's program has the root
            module.eps = stored(torch.tensor(module.eps**0.5)).item() ** 2
        elif isinstance(module, QuantizedLinear):
            module.scales = stored(module.scales)
        for name, parameter in list(module.named_parameters(recurse=False)):
            module.register_parameter(name, nn.Parameter(stored(parameter), requires_grad=False))
    drop_activation_rounding(twin)
    return twin


def round_rope(model: CausalLM, dtype: torch.dtype) -> None:
    """Rounds the rotary tables of a model that has its cache to what `dtype` holds."""
    model.model.rope_cos = model.model.rope_cos.to(dtype).float()
    model.model.rope_sin = model.model.rope_sin.to(dtype).float()
