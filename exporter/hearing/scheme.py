"""How the weights of models that hear may be stored. Importing this module is fast."""

from exporter.module.window_scheme import window_scheme
from quant.scheme import Scheme


def hearing_scheme(scheme: Scheme) -> Scheme:
    """Returns the scheme as such models are stored.

    Raises:
        ExportError: they are not quantized by it.
    """
    return window_scheme(scheme, "--quant", "models that hear")
