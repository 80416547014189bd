"""What a weight becomes: the table of schemes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from quant.errors import QuantError
from quant.method import Method, changed
from quant.weight_type import (
    FLOAT_BITS,
    GROUP_SIZES,
    INT8,
    INT8_GROUPS,
    WeightType,
)

HEAD_BITS = (8, 6, 5, 4, 3, 2)
DEFAULT_WIDTHS = (4, 5, 6, 8)  # that are mixed where the user asks for none
METHODS = {  # of the schemes that choose integers
    "rtn4": Method(rounding="nearest", scales="closed", drift="none", descent=0, rotation="none"),
    "hqq4": Method(rounding="hqq", drift="none", descent=0, rotation="none"),
    "awq4": Method(rounding="awq", importance="diagonal", drift="none", descent=0, rotation="none"),
    "gptq4": Method(),
    "rtn8": Method(rounding="nearest", scales="closed", drift="none", descent=0),
}
FOUR_BITS = ("rtn4", "hqq4", "awq4", "gptq4")
KEEP = "keep"
SCHEMES = ("none", *METHODS, KEEP)
_NO_IMPORTANCE = {  # why an importance of columns, which someone has measured, is of no use
    "none": "keeps floats",
    KEEP: "keeps the integers of the checkpoint",
    "rtn8": "loses too little to search scales",
    "hqq4": "chooses its scales without any text",
    "awq4": "measures the inputs itself, by its calibration text",
    "gptq4": "measures the inputs itself, by its calibration text",
}
_DECODER, _LAYERS = "model.", "model.layers."
EMBEDDING_PART, HEAD_PART = "model.embed_tokens", "lm_head"


@dataclass(frozen=True)
class Scheme:
    """How the weights of a model are stored; activations are int8, dynamic, per token or in groups.

    Attributes:
        name: "none" (float32), "rtn8" (int8, round to nearest), "keep" (the integers that are
            stored, in `types`; where there are none, int8 in groups of 32, round to nearest), or
            8da4w with the integers chosen as METHODS says: "rtn4" (round to nearest), "hqq4",
            "awq4" or "gptq4" (the best we know).
        group_size: input dimensions that share a scale: 32, 64 or 128.
        head_bits: the embedding and `lm_head`: 8 (one scale per row), or 6 to 2 (groups).
        method: how the integers are chosen; None: as the table says.
        types: the parts that are stored in another type than the scheme's, and that type. Parts
            are "model.layers.0." and the name of a part of that layer, EMBEDDING_PART, HEAD_PART
            (tied ends have one type), and others outside the layers.
        whole_rows: whether "rtn8" has one scale a row, for delegates without int8 in groups.

    Raises:
        QuantError: a value outside the table, or a type that the scheme does not support.
    """

    name: str = "gptq4"
    group_size: int = 32
    head_bits: int = 8
    method: Method | None = None
    types: tuple[tuple[str, WeightType], ...] = ()
    whole_rows: bool = False

    def __post_init__(self) -> None:
        _require("scheme", self.name, SCHEMES)
        _require("group size", self.group_size, GROUP_SIZES)
        _require("head bits", self.head_bits, HEAD_BITS)
        if self.name == "none" and self.head_bits != 8:
            raise QuantError(
                f"head bits {self.head_bits} have no effect with scheme 'none', which keeps "
                f"floats; leave them out, or take one of {', '.join(METHODS)}."
            )
        if self.name == "none" and self.group_size != 32:
            raise QuantError(
                f"group size {self.group_size} has no effect with scheme 'none', which keeps "
                f"floats; leave it out, or take one of {', '.join(METHODS)}."
            )
        if self.whole_rows and self.head_bits == 8 and self.group_size != 32:
            raise QuantError(
                f"group size {self.group_size} has no effect with one scale a row; leave it out."
            )
        if self.method is not None and self.name not in METHODS:
            raise QuantError(
                f"scheme {self.name!r} has no method to set; these have: {', '.join(METHODS)}."
            )
        if self.name == KEEP and (self.group_size, self.head_bits) != (32, 8):
            raise QuantError(
                "a group size and head bits have no effect with scheme 'keep', which keeps those "
                "of the checkpoint; leave them out."
            )
        levels = 1 if self.name == KEEP else self.choice.levels
        for part, type in self.types:
            if self.name == "none" or type.in_groups and type.levels != levels:
                raise QuantError(
                    f"{part} cannot be stored as {type}: {self.name} does not support it."
                )

    @property
    def type(self) -> WeightType | None:
        """Of a weight of a decoder layer; None for floats."""
        others = {"none": None, "rtn8": self._int8, KEEP: INT8_GROUPS}
        return others[self.name] if self.name in others else self._int4

    @property
    def bits(self) -> int:
        """Bits of one weight of a decoder layer, scales aside."""
        return FLOAT_BITS if self.type is None else self.type.bits

    @property
    def largest_group(self) -> int:
        """The largest of all types: columns padded for it are enough for every type."""
        return max([self.group_size, *(type.group_size for _, type in self.types)])

    def type_of(self, part: str) -> WeightType | None:
        """The type of a part such as "model.layers.0.mlp.down_proj", EMBEDDING_PART or HEAD_PART;
        None for floats. What is outside the layers is stored like the two ends."""
        type = self._types.get(part)
        is_end = part.startswith(_DECODER) and not part.startswith(_LAYERS) or part == HEAD_PART
        if type is not None or self.name in ("none", KEEP) or not is_end:
            return type or self.type
        if self.head_bits == 8:
            return self.type if self.name == "rtn8" else INT8
        return replace(self._int4, bits=self.head_bits)

    def with_types(self, types: Mapping[str, WeightType]) -> "Scheme":
        """The scheme with these parts in these types, and no others in one of their own."""
        return replace(self, types=tuple(types.items()))

    @property
    def _int8(self) -> WeightType:
        return INT8 if self.whole_rows else WeightType(8, self.group_size, 1)

    @property
    def _int4(self) -> WeightType:
        return WeightType(4, self.group_size, self.choice.levels)

    @cached_property
    def _types(self) -> dict[str, WeightType]:
        return dict(self.types)

    def widths(self, layers: Sequence[Sequence[str]], outer: Sequence[str] = ()) -> dict[str, str]:
        """Bits of each kind of part, as text: "4 bits, 8 in layers 0, 3-5".

        Args:
            layers: the names of each layer's parts in it.
            outer: parts outside the layers besides the two ends.
        """
        shown = {}
        for part in dict.fromkeys(part for parts in layers for part in parts):
            having = [i for i, parts in enumerate(layers) if part in parts]
            widths = {i: _bits(self.type_of(f"model.layers.{i}.{part}")) for i in having}
            most = self.bits if self.bits in widths.values() else min(widths.values())
            others = sorted(set(widths.values()) - {most})
            shown[part] = f"{most} bits" + "".join(
                f", {bits} in layers {_ranges([i for i in having if widths[i] == bits])}"
                for bits in others
            )
        for end in (EMBEDDING_PART, *outer, HEAD_PART):
            shown[end] = f"{_bits(self.type_of(end))} bits"
        return shown

    @property
    def ends_bits(self) -> int | None:
        """Bits of the embedding and `lm_head`, where both have as many; else None. With floats,
        `head_bits`."""
        ends = {self.type_of(EMBEDDING_PART), self.type_of(HEAD_PART)}
        widths = {self.head_bits if type is None else type.bits for type in ends}
        return widths.pop() if len(widths) == 1 else None

    @property
    def calibrates_head(self) -> bool:
        """Whether a head in groups is chosen by what it is given."""
        type = self.type_of(HEAD_PART)
        return type is not None and type.in_groups and self.choice.rounding == "gptq"

    @property
    def choice(self) -> Method:
        """How the integers are chosen; round to nearest if there is no choice."""
        return self.method or METHODS.get(self.name, METHODS["rtn4"])

    @property
    def settings(self) -> dict[str, Any] | None:
        """What was read of that choice, by the names of quant.method; None if there is none."""
        if self.name not in METHODS:
            return None
        settings = self.choice.settings
        if self.name in FOUR_BITS:
            return settings
        return {name: settings[name] for name in ("rounding", "rotation")}

    @property
    def needs_calibration(self) -> bool:
        return self.choice.needs_calibration


def _bits(type: WeightType | None) -> int:
    return FLOAT_BITS if type is None else type.bits


def _ranges(numbers: list[int]) -> str:
    """[0, 3, 4, 5] to "0, 3-5"."""
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    pairs = zip(starts, ends, strict=True)
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in pairs)


def mixes_by_default(name: str, head_bits: int | None) -> bool:
    """Whether a scheme mixes 4 to 8 bits where the user asks for no widths."""
    return name == "gptq4" and head_bits is None


def scheme_from_text(
    name: str, settings: str | None, group_size: int, head_bits: int | None
) -> Scheme:
    """A scheme whose method has some settings changed, such as "drift=none,descent=0".

    Args:
        head_bits: None for 8.

    Raises:
        QuantError: a name or value outside the tables.
    """
    scheme = Scheme(name, group_size, 8 if head_bits is None else head_bits)
    if not settings:
        return scheme
    scheme = replace(scheme, method=scheme.choice)  # refused where there is none to set
    pairs = [setting.partition("=") for setting in settings.split(",")]
    values = {key.strip(): value.strip() for key, _, value in pairs}
    return replace(scheme, method=changed(scheme.choice, values))


def weighed(scheme: Scheme) -> Scheme:
    """The scheme with scales that are searched, as an importance of columns weighs them.

    Raises:
        QuantError: it has no use for one.
    """
    if scheme.name != "rtn4":
        raise QuantError(
            f"--imatrix has no effect with {scheme.name}, which {_NO_IMPORTANCE[scheme.name]}; "
            "leave it out, or take rtn4."
        )
    if scheme.choice.rotation != "none":
        raise QuantError(
            f"--imatrix tells of inputs as they are, but rotation={scheme.choice.rotation} mixes "
            "them; leave one of the two out."
        )
    if scheme.method is None:
        return replace(scheme, method=replace(scheme.choice, scales="searched"))
    if scheme.method.scales != "searched":
        raise QuantError(
            f"--imatrix weighs the search of scales, but scales={scheme.method.scales} searches "
            "none; leave one of the two out."
        )
    return scheme


def _require(what: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        names = ", ".join(str(choice) for choice in allowed)
        raise QuantError(f"{what} {value!r} is not supported; it must be one of {names}.")
