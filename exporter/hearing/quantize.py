"""Stores the weights of a model that hears as integers."""

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import nn

from exporter.errors import ExportError
from exporter.models.whisper import Whisper
from quant.modules import QuantizedEmbedding, QuantizedWeight, set_weight
from quant.rotation.inputs import rotate_blocks
from quant.rounding.nearest import round_weight
from quant.scheme import EMBEDDING_PART, Scheme
from quant.weight_type import WeightType

SCHEMES = "none", "rtn8", "rtn4"


def stored_scheme(scheme: Scheme) -> Scheme:
    """Returns the scheme as such models are stored: 8 bits with one scale a row, which a window's
    many rows are multiplied with faster than with groups.

    Raises:
        ExportError: they are not quantized by it.
    """
    if scheme.name not in SCHEMES:
        raise ExportError(
            f"--quant {scheme.name} is not supported for models that hear; use one of "
            f"{', '.join(SCHEMES)}."
        )
    return replace(scheme, whole_rows=True) if scheme.name == "rtn8" else scheme


@torch.no_grad()
def quantize(model: Whisper, scheme: Scheme) -> None:
    """Replaces linears, and the table of tokens, which is the head as well, in place.

    Raises:
        QuantError: a weight holds a value that is not finite.
    """
    type = scheme.type_of(EMBEDDING_PART)
    if type is None or scheme.type is None:
        return
    decoder = model.decoder
    table = decoder.embed_tokens
    rounded = round_weight(table.weight, type, "decoder.embed_tokens", scheme.choice)
    decoder.embed_tokens = QuantizedEmbedding(rounded, table.embedding_dim)
    for name, linear in list(linears_of(model)):
        path, _, own = name.rpartition(".")
        set_weight(
            model.get_submodule(path), own, _nearest(name, linear, scheme.type, scheme)
        )


def linears_of(model: nn.Module) -> Iterable[tuple[str, nn.Linear]]:
    """Returns them by their names."""
    return ((name, part) for name, part in model.named_modules() if isinstance(part, nn.Linear))


def _nearest(name: str, linear: nn.Linear, type: WeightType, scheme: Scheme) -> QuantizedWeight:
    rotated = scheme.choice.rotated(linear.in_features)
    weight = rotate_blocks(linear.weight, rotated)
    return replace(round_weight(weight, type, name, scheme.choice), rotated=rotated)
