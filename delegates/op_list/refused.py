"""Why a matcher does not take a node, or a peephole leaves an op as it is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Refused:
    """
    Attributes:
        reason: half a sentence, shown after the operator's line.
    """

    reason: str
