"""Brings messages in OpenAI's form into the one that chat templates expect."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from runtime.chat_format.environment import Messages
from runtime.errors import RunnerError

PICTURE_MARK = "\ufddf"  # Unicode reserves it for such
# A picture in a content, by its number in the conversation: histories may be put in another order.
PICTURE = re.compile(f"{PICTURE_MARK}([0-9]+){PICTURE_MARK}")
_PICTURES_OF = ("user", "tool")


def prepare_messages(messages: Sequence[Mapping[str, Any]], source: str) -> Messages:
    """Returns messages for a template.

    Contents become one string, the arguments of calls objects, unless they are none, and a tool's
    message gets the name of the call that it answers. A template that does not name the role
    `developer` gets `system`.

    Args:
        messages: each with `role`; with `content` (a string, a list of parts or None; a picture is
            PICTURE in the string, and of the roles `user` and `tool` alone),
            `tool_calls`, `tool_call_id`, `name` and `reasoning_content` where they apply.
        source: of the template.

    Raises:
        RunnerError: there is no message, or one is not valid.
    """
    if not messages:
        raise RunnerError("messages is empty: give at least one message")
    if not all(isinstance(message, Mapping) for message in messages):
        raise RunnerError("messages must be a list of objects with role and content")
    names: dict[str, str] = {}  # of calls, by their id
    pictures = count()
    return [
        _prepare(message, f"messages[{index}]", names, pictures, "developer" in source)
        for index, message in enumerate(messages)
    ]


def _prepare(
    message: Mapping[str, Any],
    place: str,
    names: dict[str, str],
    pictures: Iterator[int],
    knows_developer: bool,
) -> dict[str, Any]:
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise RunnerError(f"{place} has no role")
    prepared: dict[str, Any] = {
        "role": "system" if role == "developer" and not knows_developer else role,
        "content": _text(message.get("content"), place, role, pictures),
    }
    if message.get("tool_calls"):
        prepared["tool_calls"] = [_call(call, place, names) for call in message["tool_calls"]]
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if reasoning:
        # Templates have three names for it.
        prepared |= dict.fromkeys(("reasoning_content", "reasoning", "thinking"), reasoning)
    answered = message.get("tool_call_id")
    if answered is not None:
        prepared["tool_call_id"] = answered
        if answered in names:
            prepared["name"] = names[answered]
    if message.get("name"):
        prepared["name"] = message["name"]
    return prepared


def _text(content: object, place: str, role: str, pictures: Iterator[int]) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content.replace(PICTURE_MARK, "\ufffd")
    if not isinstance(content, list):
        raise RunnerError(f"{place}.content must be a string or a list of parts")
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind in ("image", "image_url"):
            if role not in _PICTURES_OF:
                raise RunnerError(
                    f"{place} is of the role {role}: only users and tools have pictures"
                )
            texts.append(f"{PICTURE_MARK}{next(pictures)}{PICTURE_MARK}")
            continue
        if kind not in ("text", "refusal"):
            raise RunnerError(
                f"{place}.content has a part of type {kind!r}: only text and pictures are supported"
            )
        if not isinstance(part.get(kind), str):
            raise RunnerError(f"{place}.content has a part of type {kind!r} without its {kind}")
        texts.append(part[kind].replace(PICTURE_MARK, "\ufffd"))
    return "".join(texts)


def _call(call: Mapping[str, Any], place: str, names: dict[str, str]) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RunnerError(f"{place}.tool_calls has a call without the name of a function")
    if isinstance(call.get("id"), str):
        names[call["id"]] = function["name"]
    return {
        "id": call.get("id"),
        "type": "function",
        "function": {"name": function["name"], "arguments": _arguments(function.get("arguments"))},
    }


def _arguments(given: object) -> object:
    """An object if they are one; else the text, which the model may have written wrong."""
    if given is None or (isinstance(given, str) and not given.strip()):
        return {}
    try:
        arguments = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        return given
    if isinstance(arguments, Mapping):
        return dict(arguments)
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
