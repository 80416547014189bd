"""Histories that a chat template refuses, or drops a part of, written in ways that it may take."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from runtime.chat_format.environment import Messages

Tools = Sequence[Mapping[str, Any]]
_ID_LENGTH = 9  # what Mistral's templates demand
_LOOP_OVER_CALLS = re.compile(r"\bin\s+message(\.|\[['\"])tool_calls\b")


def attempts(messages: Messages, tools: Tools, source: str) -> Iterator[tuple[Messages, Tools]]:
    """Iterates over ways to write a history: first as it is, then each with one more change.

    Args:
        source: of the template.
    """
    if "tool_calls[0]" in source and not _LOOP_OVER_CALLS.search(source):
        messages = _one_call_each(messages)  # or it would drop the others without a word
    yield messages, tools
    tools = [_complete(tool) for tool in tools]
    yield messages, tools
    for mend in _MENDS:
        mended = mend(messages)
        if mended != messages:
            messages = mended
            yield messages, tools


def has_all(text: str, messages: Messages) -> bool:
    """Whether a rendered text has what the user, the assistant and the system say."""
    return all(
        message["content"].rpartition("</think>")[2].strip() in text
        for message in messages
        if message["role"] != "tool"
    )


def _complete(tool: Mapping[str, Any]) -> dict[str, Any]:
    """With what some templates take for granted."""
    function = {"description": "", "parameters": {"type": "object", "properties": {}}}
    given = {name: value for name, value in tool["function"].items() if value is not None}
    return {**tool, "function": {**function, **given}}


def _short_ids(messages: Messages) -> Messages:
    def short(number: Any) -> str:
        text = str(number)
        if len(text) == _ID_LENGTH and text.isalnum():
            return text
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_ID_LENGTH]

    mended = []
    for message in messages:
        if "tool_calls" in message:
            calls = [{**call, "id": short(call["id"])} for call in message["tool_calls"]]
            message = {**message, "tool_calls": calls}
        if "tool_call_id" in message:
            message = {**message, "tool_call_id": short(message["tool_call_id"])}
        mended.append(message)
    return mended


def _named_results(messages: Messages) -> Messages:
    """A result whose call is unknown gets the name of the last call."""
    mended, last = [], "unknown"
    for message in messages:
        for call in message.get("tool_calls", ()):
            last = call["function"]["name"]
        is_unnamed = message["role"] == "tool" and "name" not in message
        mended.append({**message, "name": last} if is_unnamed else message)
    return mended


def argument_objects(messages: Messages) -> Messages:
    """Arguments that are no JSON object become one, which has them as they are."""

    def mended(call: dict[str, Any]) -> dict[str, Any]:
        function = call["function"]
        if isinstance(function["arguments"], Mapping):
            return call
        arguments = {"arguments": function["arguments"]}
        return {**call, "function": {**function, "arguments": arguments}}

    return [
        {**message, "tool_calls": [mended(call) for call in message["tool_calls"]]}
        if "tool_calls" in message
        else message
        for message in messages
    ]


def _one_call_each(messages: Messages) -> Messages:
    """Each of several calls becomes a message of its own, with its result behind it."""
    mended: Messages = []
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        calls = message.get("tool_calls", ())
        if len(calls) < 2:
            mended.append(message)
            continue
        results = []
        while at < len(messages) and messages[at]["role"] == "tool":
            results.append(messages[at])
            at += 1
        for n, call in enumerate(calls):
            begun = message if n == 0 else {"role": message["role"], "content": ""}
            mended.append({**begun, "tool_calls": [call]})
            own = [r for r in results if r.get("tool_call_id") == call["id"]]
            own = own or results[: 1 if n + 1 < len(calls) else None]
            mended += own
            results = [result for result in results if result not in own]
        mended += results
    return mended


def _content_before_calls(messages: Messages) -> Messages:
    mended: Messages = []
    for message in messages:
        if "tool_calls" in message and message["content"]:
            content = {name: value for name, value in message.items() if name != "tool_calls"}
            calls = {"role": message["role"], "content": "", "tool_calls": message["tool_calls"]}
            mended += [content, calls]
        else:
            mended.append(message)
    return mended


def _in_turns(messages: Messages) -> Messages:
    """Roles alternate: neighbours of one role become one, instructions in between the user's."""
    mended: Messages = []
    for n, message in enumerate(messages):
        if message["role"] in ("system", "developer") and n > 0:
            message = {**message, "role": "user"}
        last = mended[-1] if mended else {"role": "system"}
        if message["role"] == "assistant" and not (message["content"] or "tool_calls" in message):
            continue
        if message["role"] == "assistant" and last["role"] == "system":
            mended.append({"role": "user", "content": ""})
        joins = message["role"] == last["role"] != "tool" and "tool_calls" not in last
        if joins and mended:
            content = "\n\n".join(filter(None, [last["content"], message["content"]]))
            mended[-1] = {**last, **message, "content": content}
        else:
            mended.append(message)
    return mended


def _instructions_of_the_user(messages: Messages) -> Messages:
    """For templates without a system message."""
    if len(messages) < 2 or messages[0]["role"] != "system" or messages[1]["role"] != "user":
        return messages
    system, user, *rest = messages
    return [{**user, "content": f"{system['content']}\n\n{user['content']}"}, *rest]


def _user_behind_results(messages: Messages) -> Messages:
    """What the user says right behind a result is told with it."""
    mended: Messages = []
    for message in messages:
        if message["role"] == "user" and mended and mended[-1]["role"] == "tool":
            content = f"{mended[-1]['content']}\n\n{message['content']}"
            mended[-1] = {**mended[-1], "content": content}
        else:
            mended.append(message)
    return mended


_MENDS: tuple[Callable[[Messages], Messages], ...] = (
    _short_ids,
    _named_results,
    argument_objects,
    _content_before_calls,
    _one_call_each,
    _in_turns,
    _instructions_of_the_user,
    _user_behind_results,
)
