"""What a format of calls has to say."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from runtime.chat_format.calls import Tool, ToolCall
from runtime.chat_format.grammar import Grammar
from runtime.chat_format.special_tokens import SpecialTokens


class CallFormat(Protocol):
    """How a family of models writes calls of functions in its answers.

    Attributes:
        name: of the format.
        begin: the text at which calls begin.
        end: the text at which they end; empty: at the answer's end.
        parallel: whether an answer may have several calls.
        begins_answer: whether calls begin only where the answer does.
        joint: what stands between calls that share one end, and what closes those before it; None:
            each call has an end of its own, or there is one alone.
    """

    @property
    def name(self) -> str: ...
    @property
    def begin(self) -> str: ...
    @property
    def end(self) -> str: ...
    @property
    def parallel(self) -> bool: ...
    @property
    def begins_answer(self) -> bool: ...
    @property
    def joint(self) -> tuple[str, str] | None: ...

    def is_of(self, source: str, special_tokens: Collection[str]) -> bool:
        """Whether a template with these special tokens has this format."""

    def heads(self, tools: Sequence[Tool]) -> list[str]:
        """Returns how calls of these functions go on behind `begin`; white space may differ."""

    def parse(self, text: str, tools: Sequence[Tool], special: SpecialTokens) -> list[ToolCall]:
        """Returns the calls in the text between `begin` and `end`, whose arguments are those of
        these functions.

        Args:
            text: as `special` reads it.

        Raises:
            NoCallError: the text is whole, but it is no call.
            ValueError: it is not of this format, or it is cut: a string of it may have `end`.
        """

    def grammar(self, grammar: Grammar, tools: Sequence[Tool], several: bool) -> str:
        """Returns the expression of what follows `begin`, up to `end`, with calls of these
        functions.

        Args:
            several: there may be more than one; where `end` is not empty and each call has its own,
                the next begins behind this expression.
        """


@runtime_checkable
class CallWriter(Protocol):
    """A format of models whose templates do not write calls."""

    def write(self, calls: Sequence[Mapping[str, Any]]) -> str:
        """Returns the text of calls in OpenAI's form, whose arguments are objects."""
