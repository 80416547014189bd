"""What a model may need of a delegate, one row each: the words in which one that lacks it refuses,
what to do instead, and the operator that shows the need in a captured program."""

from dataclasses import dataclass
from enum import Enum


class Feature(Enum):
    """
    Attributes:
        words: what a delegate without it does not do; `{value}` and `{where}` are the need's.
        advice: what helps other than another delegate; "" if nothing does.
        operator: ours, which needs it; None if a captured program shows it otherwise or not at all.
    """

    FLOAT16_GROUPS = (
        "support integers with a float16 scale for each group, which --quant keep takes from the "
        "checkpoint",
        "use another --quant, such as rtn8",
    )
    WINDOWS = (
        "support attention over a sliding window, which is {value} positions here",
        "export with a --max-context-len that the window covers",
    )
    SOFT_CAPS = ("support attention with the soft cap {value}",)
    SINKS = ("support attention with sinks",)
    CONVOLUTIONS = (
        "support short convolutions{where}",
        "",
        "thimble.short_convolution.default",
    )
    DELTA_RULES = (
        "support the gated delta rule{where}",
        "",
        "thimble.gated_delta_rule.default",
    )
    SHARED_CACHES = (
        "support attention to the keys and values of another layer{where}",
        "",
        "thimble.shared_attention.default",
    )
    ROTARY_BY_LENGTH = (
        "choose rotary tables by the length of a text{where}",
        "",
        "thimble.rotary_rows.default",
    )
    EXPERTS = ("support mixtures of experts", "", "thimble.experts.default")
    ADAPTERS = (
        "keep adapters apart",
        "merge one with --adapter DIR",
        "thimble.low_rank.default",
    )

    OTHER_STEPS = ("compute {value}",)

    def __init__(self, words: str, advice: str = "", operator: str | None = None) -> None:
        self.words = words
        self.advice = advice
        self.operator = operator


# What any delegate supports that takes attention in plain operators (passes/attention.py).
PLAIN_ATTENTION = frozenset(
    {Feature.WINDOWS, Feature.SOFT_CAPS, Feature.SINKS, Feature.OTHER_STEPS}
)


@dataclass(frozen=True)
class Need:
    """A feature that a model needs.

    Attributes:
        value: how much of it, such as a window's positions; None if that says nothing.
        where: the line of a captured program, in parentheses.
    """

    feature: Feature
    value: object = None
    where: str = ""

    def refusal(self, delegate: str) -> str:
        """Returns the words of a delegate that lacks it, before the colon of an advice."""
        return (
            f"{delegate} does not {self.feature.words.format(value=self.value, where=self.where)}"
        )
