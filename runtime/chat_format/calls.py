"""What an answer is made of: text, reasoning and calls of functions; and the functions."""

import json
import secrets
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runtime.chat_format.schemas import properties_of
from runtime.chat_format.special_tokens import without_special

_LETTERS = string.ascii_letters + string.digits


def _new_id() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(9))  # Mistral's templates demand nine


@dataclass(frozen=True)
class Text:
    """A part of the answer itself."""

    text: str


@dataclass(frozen=True)
class Reasoning:
    """A part of what the model thinks before it answers."""

    text: str


@dataclass(frozen=True)
class ToolCall:
    """A call of a function: its name, its arguments as JSON, and a new id."""

    name: str
    arguments: str
    id: str = field(default_factory=_new_id, compare=False)


Event = Text | Reasoning | ToolCall


class NoCallError(ValueError):
    """A text is whole, but it is no call."""


@dataclass(frozen=True)
class Tool:
    """A function that the model may call.

    Attributes:
        parameters: the JSON schema of its arguments, an object's.
        strict: whether the arguments must match it; otherwise they are any object.
    """

    name: str
    parameters: Mapping[str, Any]
    strict: bool

    @property
    def schema(self) -> Mapping[str, Any]:
        """The schema that the arguments must match."""
        return self.parameters if self.strict else {"type": "object"}

    @property
    def named_schema(self) -> Mapping[str, Any]:
        """The same, for a format whose arguments stand by their names: it has these at least."""
        if self.strict:
            return self.parameters
        names = dict.fromkeys(properties_of(self.parameters), True)
        unlisted = not names or "patternProperties" in self.parameters
        may_add = self.parameters.get("additionalProperties", unlisted) is not False
        return {"type": "object", "properties": names, "additionalProperties": may_add}


def make_call(name: str, arguments: Mapping[str, Any]) -> ToolCall:
    """Returns a call of a function.

    Raises:
        NoCallError: JSON does not have a value of the arguments, such as NaN.
    """
    try:
        written = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise NoCallError(str(error)) from None
    return ToolCall(name, without_special(written))


def call_of(value: Any, arguments_key: str = "arguments") -> ToolCall:
    """Returns the call that a JSON object describes.

    Raises:
        NoCallError: it describes none.
    """
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise NoCallError("a call has no name")
    arguments = value.get(arguments_key, {})
    if not isinstance(arguments, dict):
        raise NoCallError("the arguments of a call are not an object")
    if value.keys() - {"name", arguments_key, "id", "type"}:
        raise NoCallError("an object has more than a call")
    return make_call(value["name"], arguments)
