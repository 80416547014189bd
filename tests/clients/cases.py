"""What each client is asked for, and what is expected of it.

A client's program calls report() with a function for each case that the client has. It runs with
the client's own packages, and is given the addresses of three servers.
"""

import asyncio
import gc
import inspect
import json
import re
import sys
import time
import traceback
import urllib.request
from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel

# Of a model that chats, of one that never ends an answer, and of one of embeddings.
CHAT, ENDLESS, EMBEDDINGS = sys.argv[1:4]
MODEL = "stories"
ENCODER = "encoder"
KEY = "none"
PROMPT = "Once upon a time"
MESSAGES = [{"role": "user", "content": PROMPT}]
TOO_LONG = [{"role": "user", "content": PROMPT * 3000}]
TEXTS = ["The cat sat on the mat.", "Stock markets fell."]
CALLED: list[dict[str, Any]] = []  # what look() was called with
SEEN = "It is small."
_LOOP = asyncio.new_event_loop()  # one, since clients keep connections that belong to it


class Person(BaseModel):
    """A person in a story."""

    name: Literal["Lily", "Ben"]
    old: bool


def look(thing: Literal["dog", "cat"], close: bool) -> str:
    """Looks at a thing.

    Args:
        thing: what to look at.
        close: whether to go near it.
    """
    CALLED.append({"thing": thing, "close": close})
    return SEEN


# A schema as OpenAI's interface has it.
RESPONSE_FORMAT = {
    "type": "json_schema",
    "json_schema": {"name": "person", "schema": Person.model_json_schema()},
}
ARGUMENTS = {
    "type": "object",
    "properties": {
        "thing": {"type": "string", "enum": ["dog", "cat"]},
        "close": {"type": "boolean"},
    },
    "required": ["thing", "close"],
    "additionalProperties": False,
}
FUNCTION = {"name": "look", "description": "Looks at a thing.", "parameters": ARGUMENTS}
TOOL = {"type": "function", "function": FUNCTION}
# A call, where a client cannot say that there must be one: the model makes none by itself.
MADE_UP = {"thing": "dog", "close": True}


def results_of(calls: list[Any]) -> list[dict[str, Any]]:
    """The messages with the results of calls, as OpenAI's interface has both."""
    return [
        {
            "role": "tool",
            "tool_call_id": call.id,
            "content": look(**json.loads(call.function.arguments)),
        }
        for call in calls
    ]


def report(**cases: Callable[[], Any]) -> None:
    """Runs the cases and prints a line of JSON: of each "" if it works, else what is wrong."""
    found = {}
    for name, case in cases.items():
        try:
            found[name] = _CHECKS[name](lambda case=case: _result(case))
        except Exception as error:
            traceback.print_exc()
            found[name] = f"{type(error).__name__}: {error}"[:300] or "failed"
    print("\n" + json.dumps(found))


def _result(case: Callable[[], Any]) -> Any:
    result = case()
    return _LOOP.run_until_complete(result) if inspect.iscoroutine(result) else result


def _chat(run: Callable[[], Any]) -> str:
    text = run()
    return "" if isinstance(text, str) and text.strip() else f"the answer is {text!r}"


def _stream(run: Callable[[], Any]) -> str:
    parts = [part for part in run() if part]
    right = len(parts) > 3 and all(isinstance(part, str) for part in parts)
    return "" if right else f"the stream is {parts!r}"


def _schema(run: Callable[[], Any]) -> str:
    person = run()
    if isinstance(person, str):
        person = json.loads(person)
    if isinstance(person, BaseModel):
        person = person.model_dump()
    Person.model_validate(person, strict=True)
    return ""


def _tools(run: Callable[[], Any]) -> str:
    """The case calls look() with what it is asked to, and returns the answer after that."""
    CALLED.clear()
    text = run()
    if not CALLED or any(c["thing"] not in ("dog", "cat") for c in CALLED):
        return f"look() was called with {CALLED!r}"
    return "" if isinstance(text, str) and text.strip() else f"the answer is {text!r}"


def _embeddings(run: Callable[[], Any]) -> str:
    rows = [list(row) for row in run()]
    right = len(rows) == len(TEXTS) and all(abs(sum(x * x for x in r) - 1) < 1e-3 for r in rows)
    return "" if right and rows[0] != rows[1] else f"the rows are {str(rows)[:100]}"


def _cancel(run: Callable[[], Any]) -> str:
    """The case asks ENDLESS for a stream, and goes away after its beginning."""
    before, broken_off = _ended(), _ended("499")
    run()
    gc.collect()  # openai's streams are in a cycle
    while _metric(r"thimble_running\{[^}]*\}") > 0 or _ended() == before:
        time.sleep(0.1)  # at last the context is full
    return "" if _ended("499") > broken_off else "the server goes on"


def _overflow(run: Callable[[], Any]) -> str:
    try:
        text = run()
    except Exception as error:
        reasons, at = [], error
        while at is not None and len(reasons) < 9:
            reasons.append(str(at))
            at = at.__cause__ or at.__context__
        if re.search("context length|context", " ".join(reasons)):
            return ""
        return f"the error is {type(error).__name__}: {error}"[:300]
    return f"the answer is {str(text)[:80]!r}"


_CHECKS = {
    "chat": _chat,
    "stream": _stream,
    "schema": _schema,
    "tools": _tools,
    "embeddings": _embeddings,
    "cancel": _cancel,
    "overflow": _overflow,
}


def _metric(pattern: str) -> float:
    with urllib.request.urlopen(ENDLESS + "/metrics") as answer:
        text = answer.read().decode()
    return sum(float(n) for n in re.findall(rf"^{pattern} (\S+)$", text, re.MULTILINE))


def _ended(status: str = r"\d+") -> float:
    """How many answers have ended so."""
    return _metric(
        rf'thimble_requests_total\{{[^}}]*model="{MODEL}",[^}}]*status="{status}"[^}}]*\}}'
    )
