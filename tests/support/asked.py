"""Conversations with functions, and their answers read piece by piece."""

from typing import Any

from support.answer_pieces import pieces_of
from support.call_templates import SPECIAL_TOKENS

from runtime.chat_format.calls import Event, Text
from runtime.chat_format.conversation import Prompt, prepare
from runtime.chat_format.reader import Reader
from runtime.chat_format.template import ChatTemplate

USER = [{"role": "user", "content": "What is the weather in Rome?"}]
PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "fast": {"type": "boolean"},
        "unit": {"enum": ["C", "F"]},
        "tags": {"type": "array", "items": {"type": "number"}},
    },
    "required": ["city"],
}
TOOLS = [
    {
        "type": "function",
        "function": {"name": "get_weather", "strict": True, "parameters": PARAMETERS},
    },
    {"type": "function", "function": {"name": "now"}},
]


def template_of(source: str, special: tuple[str, ...] = SPECIAL_TOKENS) -> ChatTemplate:
    return ChatTemplate(source, "", "</s>", special)


def read(reader: Reader, text: str, size: int = 1 << 30) -> list[Event]:
    """The events of an answer that has these special tokens, in pieces of so many characters."""
    pieces = pieces_of(text, SPECIAL_TOKENS, size)
    events = [event for piece in pieces for event in reader.push(piece)]
    return events + reader.finish()


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Text))


def ask(template: ChatTemplate, **options: Any) -> Prompt:
    return prepare(template, USER, tools=options.pop("tools", TOOLS), **options)
