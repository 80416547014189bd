"""What an answer is made of: text, reasoning and calls of functions; and the functions."""

import json
import secrets
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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


@dataclass(frozen=True)
class Tool:
    """A function that the model may call.

    Attributes:
        schema: the JSON schema of its arguments, an object's.
    """

    name: str
    schema: Mapping[str, Any]


def call_of(value: Any, arguments_key: str = "arguments") -> ToolCall:
    """Returns the call that a JSON object describes.

    Raises:
        ValueError: it describes none.
    """
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise ValueError("a call has no name")
    arguments = value.get(arguments_key, {})
    if not isinstance(arguments, dict):
        raise ValueError("the arguments of a call are not an object")
    return ToolCall(value["name"], json.dumps(arguments, ensure_ascii=False))
