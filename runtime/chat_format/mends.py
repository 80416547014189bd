"""Histories that a chat template refuses, or drops a part of, written in ways that it may take."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from runtime.chat_format.environment import Messages
from runtime.chat_format.messages import PICTURE
from runtime.chat_format.reasoning import behind_reasoning, spells_reasoning
from runtime.chat_format.turns import turns_that_end_once

Tools = Sequence[Mapping[str, Any]]
_ID_LENGTH = 9  # what Mistral's templates demand
_WORD = re.compile("[A-Za-z0-9]+")
_LOOP_OVER_CALLS = re.compile(r"\bin\s+message(\.|\[['\"])tool_calls\b")


def attempts(
    messages: Messages, tools: Tools, source: str
) -> Iterator[tuple[Messages, Tools | None]]:
    """Iterates over ways to write a history: first as it is, then with one change, then each with
    one more.
    Without functions these are None, and later an empty list.

    Args:
        source: of the template.
    """
    if "tool_calls[0]" in source and not _LOOP_OVER_CALLS.search(source):
        messages = _one_call_each(messages)  # or it would drop the others without a word
    if "continue_same_model_turn" in source:  # Gemma 4's, which has results in the turn
        messages = turns_that_end_once(messages)
    if "<｜Assistant｜>" in source:
        yield from ((way, tools or None) for way in _without_empty_turns(messages))
    complete = [_complete(tool) for tool in tools]
    for known in (tools or None, complete):
        yield messages, known
        for mend in _MENDS:
            if (mended := mend(messages)) != messages:
                yield mended, known
    for mend in _MENDS:
        if (mended := mend(messages)) != messages:
            messages = mended
            yield messages, complete


def has_all(text: str, messages: Messages, tools: Tools) -> bool:
    """Whether a rendered text has what the user, the assistant and the system say. Templates write
    calls and results in forms of their own: of these it has the names and the longest words."""
    names = Counter(tool["function"]["name"] for tool in tools)
    for message in messages:
        names.update(call["function"]["name"] for call in message.get("tool_calls", ()))
    return all(text.count(name) >= count for name, count in names.items()) and all(
        part in text for message in messages for part in _parts(message)
    )


def _parts(message: Mapping[str, Any]) -> Iterator[str]:
    if message["role"] == "tool":
        yield from _words(PICTURE.sub(" ", message["content"]))
        return
    text = behind_reasoning(message["content"])
    yield from (part.strip() for part in PICTURE.split(text)[::2])
    for call in message.get("tool_calls", ()):
        yield from _words(call["function"]["arguments"])


def _words(value: object) -> Iterator[str]:
    """The longest words of texts, which no form changes."""
    if isinstance(value, str):
        yield from sorted(set(_WORD.findall(value)), key=len)[-3:]
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _words(each)


def _complete(tool: Mapping[str, Any]) -> dict[str, Any]:
    """With what some templates take for granted."""
    function: dict[str, Any] = {"description": ""}
    function["parameters"] = {"type": "object", "properties": {}}
    function |= {name: value for name, value in tool["function"].items() if value is not None}
    parameters = function["parameters"]
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    if isinstance(properties, Mapping):
        named = {
            name: {"description": "", **schema} if isinstance(schema, Mapping) else schema
            for name, schema in properties.items()
        }
        function["parameters"] = {**parameters, "properties": named}
    return {**tool, "function": function}


def _developer_as_system(messages: Messages) -> Messages:
    return [
        {**message, "role": "system"} if message["role"] == "developer" else message
        for message in messages
    ]


def _without_reasoning(messages: Messages) -> Messages:
    """Says that there is none, for templates that look for its marks in the content."""
    return [
        {"reasoning_content": "", **message} if spells_reasoning(message["content"]) else message
        for message in messages
    ]


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

    return _with_calls(messages, mended)


def _with_calls(messages: Messages, mended: Callable[[dict[str, Any]], Any]) -> Messages:
    return [
        {**message, "tool_calls": [mended(call) for call in message["tool_calls"]]}
        if "tool_calls" in message
        else message
        for message in messages
    ]


def _results_behind_calls(messages: Messages) -> Messages:
    """What is said between a call and its result comes behind that."""
    mended: Messages = []
    rest = list(messages)
    while rest:
        message = rest.pop(0)
        mended.append(message)
        numbers = [call["id"] for call in message.get("tool_calls", ())]
        others: Messages = []
        before_calls = True
        for later in rest if numbers else ():
            before_calls = before_calls and "tool_calls" not in later
            is_result = later["role"] == "tool" and later.get("tool_call_id") in numbers
            (mended if before_calls and is_result else others).append(later)
        rest = others if numbers else rest
    return mended


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
        ids = [call["id"] for call in calls]
        for n, call in enumerate(calls):
            begun = message if n == 0 else {"role": message["role"], "content": ""}
            mended.append({**begun, "tool_calls": [call]})
            own = [r for r in results if r.get("tool_call_id") == call["id"]]
            nobodys = [r for r in results if r.get("tool_call_id") not in ids]
            own = own or nobodys[: 1 if n + 1 < len(calls) else None]
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


def _results_of_the_user(messages: Messages) -> Messages:
    """A result behind no call is told by the user."""
    mended: Messages = []
    for message in messages:
        last = mended[-1] if mended else {"role": ""}
        if message["role"] == "tool" and last["role"] != "tool" and "tool_calls" not in last:
            message = {"role": "user", "content": message["content"]}
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
    if len(messages) == 1 and messages[0]["role"] == "system":
        return [{**messages[0], "role": "user"}]
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


def _turn_before_calls(messages: Messages) -> Messages:
    """For templates in which roles alternate, and that drop what is said beside calls."""
    mended: Messages = []
    for message in _content_before_calls(messages):
        if "tool_calls" in message and mended and mended[-1]["role"] == "assistant":
            mended.append({"role": "user", "content": ""})
        mended.append(message)
    return mended


def _argument_texts(messages: Messages) -> Messages:
    """For templates that write arguments as OpenAI's interface has them."""

    def mended(call: dict[str, Any]) -> dict[str, Any]:
        arguments = call["function"]["arguments"]
        if isinstance(arguments, Mapping):
            arguments = json.dumps(arguments, ensure_ascii=False)
        return {**call, "function": {**call["function"], "arguments": arguments}}

    return _with_calls(messages, mended)


def _calls_without_content(messages: Messages) -> Messages:
    """For templates that ask whether there is content."""
    return [
        {**message, "content": None}
        if "tool_calls" in message and not message["content"]
        else message
        for message in messages
    ]


def _without_empty_turns(messages: Messages) -> Iterator[Messages]:
    """For DeepSeek's templates, which write a turn for each content that is not none, and some of
    them no call beside it."""
    kept: Messages = []
    for message in messages:
        is_empty = message["role"] == "assistant" and message.keys() == {"role", "content"}
        if not is_empty or message["content"] or (kept and kept[-1]["role"] == "tool"):
            kept.append(message)
    for way in (kept, _argument_texts(kept)):
        yield _calls_without_content(way)
        yield _calls_without_content(_content_before_calls(way))


_MENDS: tuple[Callable[[Messages], Messages], ...] = (
    _without_reasoning,
    _developer_as_system,
    _short_ids,
    _named_results,
    argument_objects,
    _content_before_calls,
    _results_behind_calls,
    _one_call_each,
    _results_of_the_user,
    _in_turns,
    _instructions_of_the_user,
    _user_behind_results,
    _turn_before_calls,
    _argument_texts,
    _calls_without_content,
)
