"""How the numbers of one weight are stored."""

from dataclasses import dataclass

from quant.errors import QuantError

FLOAT_BITS = 32  # of a number that is not quantized, whatever a delegate stores it as
GROUP_SIZES = (32, 64, 128)
WHOLE_ROW = 0  # as a group size: one scale for each row


@dataclass(frozen=True)
class WeightType:
    """The storage of a weight of integers, symmetric around 0.

    Attributes:
        bits: of an integer.
        group_size: input dimensions that share a scale; WHOLE_ROW: all of a row do.
        levels: of the scales: 2, an integer (1 to 15 with 2 to 4 bits, to 8 with 5, to 4 with 6)
            times a float of the row; 1, a float each, which is exact in float16 where a row has
            several.

    Raises:
        QuantError: a type that nothing stores.
    """

    bits: int
    group_size: int
    levels: int

    def __post_init__(self) -> None:
        kind = self.bits, self.levels
        kinds = (2, 2), (3, 2), (4, 1), (4, 2), (5, 2), (6, 2), (8, 1)
        grouped = self.group_size in GROUP_SIZES and kind in kinds
        if not grouped and (*kind, self.group_size) != (8, 1, WHOLE_ROW):
            raise QuantError(
                f"a weight of {self.bits} bits in groups of {self.group_size} with {self.levels} "
                f"levels of scales is not supported. Groups of {', '.join(map(str, GROUP_SIZES))} "
                "may have 2 to 6 bits with 2 levels, or 4 or 8 bits with 1. One scale a row is of "
                "8 bits."
            )

    @property
    def in_groups(self) -> bool:
        """Whether a row has several scales."""
        return self.group_size != WHOLE_ROW

    def padded(self, columns: int) -> int:
        """Columns as they are stored: a multiple of the group."""
        return columns + -columns % self.group_size if self.in_groups else columns


INT8 = WeightType(8, WHOLE_ROW, 1)
INT8_GROUPS = WeightType(8, 32, 1)  # GGUF's Q8_0


def int4(group_size: int) -> WeightType:
    """4 bits with scales on two levels."""
    return WeightType(4, group_size, 2)
