"""How the weights of models that read whole windows, of sound or pixels, may be stored. Importing
this module is fast."""

from dataclasses import replace

from exporter.errors import ExportError
from quant.scheme import Scheme

SCHEMES = "none", "rtn8", "rtn4", "gptq4"
DEFAULT_SCHEME = Scheme("rtn8")


def require_window_scheme(name: str, option: str, what: str) -> None:
    """Raises as window_scheme does, of a name that may be of no scheme at all."""
    if name not in SCHEMES:
        raise ExportError(
            f"{option} {name} is not supported for {what}; use one of {', '.join(SCHEMES)}."
        )


def window_scheme(scheme: Scheme, option: str, what: str) -> Scheme:
    """Returns the scheme as such models are stored: 8 bits with one scale a row, which a window's
    many rows are multiplied with faster than with groups. In 4 bits, layers correct no drift.

    Args:
        option, what: for the error: which names the scheme, and of what.

    Raises:
        ExportError: they are not quantized by it.
    """
    require_window_scheme(scheme.name, option, what)
    if scheme.needs_calibration:
        return replace(scheme, method=replace(scheme.choice, drift="none"))
    return replace(scheme, whole_rows=True) if scheme.name == "rtn8" else scheme


def describe_scheme(scheme: Scheme) -> dict[str, object]:
    """What a report says of such weights."""
    type = scheme.type
    return {
        "scheme": scheme.name,
        "bits": 32 if type is None else type.bits,
        "group_size": 0 if type is None else type.group_size,
    }
