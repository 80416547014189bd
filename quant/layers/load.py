"""Stored weights into a model, none of them without a meaning."""

from torch import nn

from quant.protocols import WeightSource
from quant.rounding.nearest import require_finite


def load_finite(
    weights: WeightSource, module: nn.Module, prefix: str, matrices: bool = True
) -> None:
    """As `WeightSource.load_into`.

    Args:
        matrices: check them too; who rounds them, checks them there.

    Raises:
        QuantError: a norm, a bias or a matrix holds a value that is not finite.
    """
    weights.load_into(module, prefix)
    for name, parameter in module.named_parameters():
        if matrices or parameter.dim() == 1:
            require_finite(parameter, f"{prefix}{name}")
