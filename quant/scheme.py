"""What a weight becomes: the table of schemes."""

from dataclasses import dataclass

from quant.errors import QuantError

SCHEMES = ("none", "rtn4", "gptq4", "rtn8")
GROUP_SIZES = (32, 64, 128)
HEAD_BITS = (8, 4)


@dataclass(frozen=True)
class Scheme:
    """How the weights of a model are stored; activations are int8, dynamic, per token.

    Attributes:
        name: "none" (float32), "rtn4" (8da4w, round to nearest), "gptq4" (8da4w, GPTQ) or "rtn8"
            (int8, one scale per output channel, round to nearest).
        group_size: input dimensions that share an int4 scale: 32, 64 or 128.
        head_bits: the embedding and `lm_head`: 8 (one scale per row) or 4 (groups).

    Raises:
        QuantError: a value outside the table.
    """

    name: str = "gptq4"
    group_size: int = 32
    head_bits: int = 8

    def __post_init__(self) -> None:
        _require("scheme", self.name, SCHEMES)
        _require("group size", self.group_size, GROUP_SIZES)
        _require("head bits", self.head_bits, HEAD_BITS)

    @property
    def bits(self) -> int:
        """Bits of one weight of a decoder layer, scales aside."""
        return {"none": 32, "rtn4": 4, "gptq4": 4, "rtn8": 8}[self.name]

    @property
    def needs_calibration(self) -> bool:
        return self.name == "gptq4"


def _require(what: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        names = ", ".join(str(choice) for choice in allowed)
        raise QuantError(f"{what} {value!r} is not supported; it must be one of {names}.")
