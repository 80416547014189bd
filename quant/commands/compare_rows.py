"""The rows of `python -m quant compare`: methods from the simplest to the exporter's own."""

from dataclasses import replace

from quant.method import Method
from quant.scheme import METHODS

_PLAIN = Method(
    importance="diagonal", drift="none", descent=0, int8_statistics=False, rotation="none"
)
_STILL = replace(METHODS["gptq4"], rotation="none")
_SHARP = replace(_PLAIN, importance="inverse", int8_statistics=True)
ROWS: dict[str, tuple[str, Method]] = {  # name: scheme and method
    "RTN, absmax / 7.5": ("rtn4", replace(METHODS["rtn4"], scales="absmax")),
    "RTN, two-level": ("rtn4", METHODS["rtn4"]),
    "RTN, two-level, Hadamard": ("rtn4", replace(METHODS["rtn4"], rotation="hadamard")),
    "RTN, two-level, learned rotation": ("rtn4", replace(METHODS["rtn4"], rotation="learned")),
    "RTN, two-level, searched": ("rtn4", replace(METHODS["rtn4"], scales="searched")),
    "HQQ": ("hqq4", METHODS["hqq4"]),
    "AWQ": ("awq4", METHODS["awq4"]),
    "GPTQ without act-order": ("gptq4", replace(_PLAIN, act_order=False)),
    "GPTQ": ("gptq4", _PLAIN),
    "GPTQ' = GPTQ + inverse importance + int8 statistics": ("gptq4", _SHARP),
    "GPTQ' + descent": ("gptq4", replace(_SHARP, descent=METHODS["gptq4"].descent)),
    "GPTQ' + GPTAQ": ("gptq4", replace(_SHARP, drift="gptaq")),
    "GPTQ' + Qronos": ("gptq4", replace(_SHARP, drift="qronos", drift_share=1.0)),
    "GPTQ' + drift of inputs": ("gptq4", replace(_SHARP, drift="inputs", drift_share=1.0)),
    "GPTQ' + drift of the residual": ("gptq4", replace(_STILL, descent=0)),
    "GPTQ' + drift of the residual + descent": ("gptq4", _STILL),
    "the same + Hadamard rotations, folded": ("gptq4", replace(_STILL, rotation="hadamard")),
    "the same + learned rotation, folded": ("gptq4", replace(_STILL, rotation="learned")),
    "`gptq4`: the same + rotated inputs": ("gptq4", METHODS["gptq4"]),
}
