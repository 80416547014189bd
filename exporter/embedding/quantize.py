"""Fills an encoder with the quantized form of stored weights, one weight at a time."""

from dataclasses import replace

import torch
from torch import nn

from exporter.checkpoint.checkpoint import Checkpoint
from exporter.errors import ExportError
from exporter.models.encoder import EmbeddingModel
from exporter.models.encoder_spec import AnyEncoderSpec
from quant.modules import QuantizedEmbedding, set_weight
from quant.progress import ProgressCallback, ProgressMeter
from quant.rotation.inputs import rotate_blocks
from quant.rounding.nearest import require_finite, round_weight
from quant.scheme import Scheme

SCHEMES = "none", "rtn8", "rtn4"
_TABLE = "embed_tokens"


def stored_scheme(scheme: Scheme) -> Scheme:
    """Returns the scheme as encoders are stored: 8 bits with one scale a row, which long calls
    multiply a quarter faster than groups.

    Raises:
        ExportError: encoders are not quantized by it.
    """
    if scheme.name not in SCHEMES:
        raise ExportError(
            f"--quant {scheme.name} is not supported for encoders yet; use one of "
            f"{', '.join(SCHEMES)}."
        )
    return replace(scheme, whole_rows=True) if scheme.name == "rtn8" else scheme


@torch.no_grad()
def load_quantized(
    model: EmbeddingModel,
    checkpoint: Checkpoint[AnyEncoderSpec],
    scheme: Scheme,
    progress: ProgressCallback | None,
) -> None:
    """Replaces the parameters of a model on the meta device, its linears and the table of its
    tokens by quantized ones unless the scheme is "none".

    Raises:
        ExportError, QuantError: a weight does not fit, or holds a value that is not finite.
    """
    meter = ProgressMeter(sum(p.numel() for p in model.parameters()), progress)
    for path, module in list(model.named_modules()):
        parameters = list(module.named_parameters(recurse=False))
        if not parameters:
            continue
        checkpoint.load_into(module, f"{path}.")
        for name, parameter in module.named_parameters(recurse=False):
            require_finite(parameter, f"{path}.{name}")
        parent, name = model.get_submodule(path.rpartition(".")[0]), path.rpartition(".")[2]
        if scheme.name != "none" and (isinstance(module, nn.Linear) or name == _TABLE):
            _quantize(parent, name, path, scheme)
        meter.advance(path, sum(parameter.numel() for _, parameter in parameters))


def _quantize(parent: nn.Module, name: str, path: str, scheme: Scheme) -> None:
    module, type = parent.get_submodule(name), scheme.type_of(path)
    assert type is not None
    weight = module.get_parameter("weight")
    if isinstance(module, nn.Embedding):
        table = round_weight(weight, type, path, scheme.choice)
        setattr(parent, name, QuantizedEmbedding(table, module.embedding_dim))
        return
    rotated = scheme.choice.rotated(weight.shape[1])
    quantized = round_weight(rotate_blocks(weight, rotated), type, path, scheme.choice)
    set_weight(parent, name, replace(quantized, rotated=rotated))
