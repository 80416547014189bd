"""OpenAI's older form of functions, of before there were tools, in today's form.

Its calls have no ids: a result belongs to the last call of its name.
"""

from collections.abc import Mapping, Sequence
from typing import Any

_Message = Mapping[str, Any]


def in_todays_form(messages: Sequence[_Message]) -> list[_Message]:
    """Returns messages with `tool_calls` and the role `tool` where they have `function_call` and
    the role `function`. Others stay as they are."""
    ids: dict[str, str] = {}  # of the last calls, by name
    return [_message(message, f"call_{index}", ids) for index, message in enumerate(messages)]


def _message(message: _Message, own_id: str, ids: dict[str, str]) -> _Message:
    call = message.get("function_call")
    if call:
        ids[call["name"]] = own_id
        others = {name: value for name, value in message.items() if name != "function_call"}
        called = {"id": own_id, "type": "function", "function": call}
        return others | {"tool_calls": [*message.get("tool_calls", ()), called]}
    if message["role"] == "function":
        return {**message, "role": "tool", "tool_call_id": ids.get(message["name"], own_id)}
    return message
