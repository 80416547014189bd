"""How the weights of models that hear may be stored. Importing this module is fast."""

from dataclasses import replace

from exporter.errors import ExportError
from quant.scheme import Scheme

SCHEMES = "none", "rtn8", "rtn4", "gptq4"
DEFAULT_SCHEME = Scheme("rtn8")


def stored_scheme(scheme: Scheme) -> Scheme:
    """Returns the scheme as such models are stored: 8 bits with one scale a row, which a window's
    many rows are multiplied with faster than with groups. In 4 bits, layers correct no drift.

    Raises:
        ExportError: they are not quantized by it.
    """
    if scheme.name not in SCHEMES:
        raise ExportError(
            f"--quant {scheme.name} is not supported for models that hear; use one of "
            f"{', '.join(SCHEMES)}."
        )
    if scheme.needs_calibration:
        return replace(scheme, method=replace(scheme.choice, drift="none"))
    return replace(scheme, whole_rows=True) if scheme.name == "rtn8" else scheme
