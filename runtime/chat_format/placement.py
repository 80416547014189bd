"""Puts functions and calls into messages, for templates that have no other place for them."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.chat_format.environment import Messages, variables_of
from runtime.chat_format.formats.base import CallFormat, CallWriter
from runtime.chat_format.mends import argument_objects
from runtime.errors import RunnerError

_TOOLS_OF_A_MESSAGE = re.compile(r"""\bmessage(\.tools\b|\[['"]tools['"]\])""")


def place_functions(
    messages: Messages, tools: Sequence[Mapping[str, Any]], source: str
) -> Messages:
    """Returns the messages with the functions in the system message, if the template `source` takes
    them from there alone, as Phi-4-mini's does."""
    if not _TOOLS_OF_A_MESSAGE.search(source) or "tools" in variables_of(source):
        return messages
    functions = json.dumps([tool["function"] for tool in tools], ensure_ascii=False)
    if messages[0]["role"] != "system":
        messages = [{"role": "system", "content": ""}, *messages]
    return [{**messages[0], "tools": functions}, *messages[1:]]


def place_calls(messages: Messages, source: str, calls: CallFormat | None) -> Messages:
    """Returns the messages with calls in their contents, in the model's format, if the template
    `source` writes none, as LFM2's and Phi-4-mini's do not.

    Raises:
        RunnerError: the format cannot be written.
    """
    if "tool_calls" in source or not any("tool_calls" in message for message in messages):
        return messages
    if not isinstance(calls, CallWriter):
        raise RunnerError("the model's chat template does not write tool_calls: leave them out")
    return [
        {**message, "content": (message["content"] or "") + calls.write(message["tool_calls"])}
        if "tool_calls" in message
        else message
        for message in argument_objects(messages)
    ]
