"""How the integers of a 4-bit weight are chosen: every choice is a field."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from quant.errors import QuantError

ROUNDINGS = ("nearest", "hqq", "awq", "gptq")
SCALES = ("absmax", "closed", "searched")
IMPORTANCES = ("diagonal", "inverse")
DRIFTS = ("none", "gptaq", "qronos", "inputs", "residual", "shrunk")
ROTATED = (64, 32, 16)  # sizes of blocks: the first that divides the columns is taken
ROTATIONS = ("none", "inputs", "hadamard", "learned")


def rotated_block(columns: int) -> int:
    """The size of the blocks in which so many columns are rotated; 0: none divides them."""
    return next((size for size in ROTATED if columns % size == 0), 0)


@dataclass(frozen=True)
class Method:
    """The choices, from weights to integers.

    Attributes:
        rounding: "nearest"; "gptq" (quant.rounding.gptq); or, for comparison, "hqq" and "awq"
            (quant.baselines).
        scales: "absmax" (largest magnitude / 7.5 in bfloat16, each group alone), "closed" (the
            same on the two-level grid) or "searched" (least squared error on that grid).
        importance: of a column in that search: "diagonal" of the Hessian, the cost of an error
            for which nothing compensates, or "inverse" (1 / diag of the inverse), its cost if
            all other columns compensate.
        act_order: GPTQ takes columns in order of falling diag(H).
        drift: what is done about inputs that quantized layers have already moved
            (quant.rounding.drift): "none", "inputs" (least squares) or "residual" (least squares in
            which the last linear of a block also corrects the drift of the residual stream; one
            that a norm follows is treated as with "inputs"); "shrunk", which is "residual" with a
            share for each output, estimated from the text; or, for comparison, "gptaq" and
            "qronos".
        drift_share: how much of the correction is applied, 0 .. 1; all of it overfits. Read by
            all but "none" and "shrunk".
        descent: sweeps of coordinate descent over integers and scales after GPTQ.
        int8_statistics: whether Hessians are of activations rounded as they are at run time.
        rotation: "none"; "inputs" (of each linear in a decoder layer, in blocks, at run time:
            quant.rotation.inputs); or, of the residual stream and the values of each head and
            folded into the weights, "hadamard" (QuaRot) or "learned" (SpinQuant).

    Raises:
        QuantError: a value outside the table.
    """

    rounding: str = "gptq"
    scales: str = "searched"
    importance: str = "inverse"
    act_order: bool = True
    drift: str = "residual"
    drift_share: float = 0.75
    descent: int = 2
    int8_statistics: bool = True
    rotation: str = "inputs"

    def __post_init__(self) -> None:
        for name, allowed in _ALLOWED.items():
            value = getattr(self, name)
            if value not in allowed:
                raise QuantError(
                    f"method {name}={value!r} is not supported; it must be one of "
                    f"{', '.join(allowed)}."
                )
        if not 0 <= self.drift_share <= 1:
            raise QuantError(
                f"method drift_share={self.drift_share} is not possible; it must be from 0 to 1."
            )
        if self.descent < 0:
            raise QuantError(f"method descent={self.descent} is not possible; it must be >= 0.")
        if self.scales == "absmax" and self.rounding != "nearest":
            raise QuantError(
                f"method scales='absmax' needs rounding='nearest', not "
                f"{self.rounding!r}; take closed or searched."
            )

    @property
    def settings(self) -> dict[str, Any]:
        """The fields that this rounding reads, and their values."""
        unread: tuple[str, ...] = ()
        if self.rounding != "gptq":
            unread = ("act_order", "drift", "drift_share", "descent")
        elif self.drift == "shrunk":
            unread = ("drift_share",)
        if self.rounding in ("nearest", "hqq"):
            unread += ("importance", "int8_statistics")
        return {name: value for name, value in asdict(self).items() if name not in unread}

    def rotated(self, columns: int) -> int:
        """The size of the blocks in which inputs of so many columns are rotated; 0: none."""
        if self.rotation != "inputs":
            return 0
        return rotated_block(columns)

    @property
    def folds_rotation(self) -> bool:
        """Whether weights are rotated together, so that nothing is left of it at run time."""
        return self.rotation in ("hadamard", "learned")

    @property
    def levels(self) -> int:
        """Of the scales that it makes: see quant.weight_type."""
        return 1 if self.scales == "absmax" else 2

    @property
    def needs_calibration(self) -> bool:
        """Whether the method needs text."""
        return self.follows_calibration or self.rotation == "learned"

    @property
    def follows_calibration(self) -> bool:
        """Whether the calibration text goes through the layers as they are quantized."""
        return self.rounding in ("awq", "gptq")

    @property
    def follows_residual(self) -> bool:
        """Whether the last linear of a block also corrects the drift of the residual stream."""
        return self.drift in ("residual", "shrunk")

    @property
    def damp_percent(self) -> float:
        """Of the Hessian's mean diagonal, what is added to the diagonal. More of it keeps GPTQ and
        the corrections from overfitting the text, too."""
        return 20.0 if self.drift == "shrunk" else 1.0

    @property
    def follows_float(self) -> bool:
        """Whether the calibration text also goes through the float layers."""
        return self.rounding == "gptq" and self.drift != "none"


SETTINGS = tuple(field.name for field in fields(Method))
_ALLOWED = {
    "rounding": ROUNDINGS,
    "scales": SCALES,
    "importance": IMPORTANCES,
    "drift": DRIFTS,
    "rotation": ROTATIONS,
}


def changed(method: Method, settings: Mapping[str, str]) -> Method:
    """A method with some fields set from text, such as {"drift": "none", "descent": "0"}.

    Raises:
        QuantError: no such field, one that the rounding does not read, or a value it cannot have.
    """
    kinds = {field.name: type(getattr(method, field.name)) for field in fields(Method)}
    values: dict[str, Any] = {}
    for name, text in settings.items():
        if name not in kinds:
            raise QuantError(
                f"method has no setting {name!r}; it must be one of {', '.join(kinds)}."
            )
        values[name] = _parsed(name, text, kinds[name])
    made = replace(method, **values)
    for name in values:
        if name == "drift_share" and made.rounding == "gptq" and name not in made.settings:
            raise QuantError(
                "method drift_share has no effect with drift=shrunk, which estimates the shares; "
                "leave it out, or take drift=residual."
            )
        if name not in made.settings:
            raise QuantError(
                f"method {name} has no effect with rounding={made.rounding}; leave it out, or take "
                "gptq4."
            )
    return made


def _parsed(name: str, text: str, kind: type) -> Any:
    if kind is bool:
        if text not in ("true", "false"):
            raise QuantError(f"method {name}={text!r} is not supported; it must be true or false.")
        return text == "true"
    try:
        return kind(text)
    except ValueError:
        raise QuantError(f"method {name}={text!r} is not supported; give a number.") from None
