"""How the clients of each interface read streams and errors."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.chat_format.conversation import Prompt
from runtime.server.errors import THREAD_NOT_FOUND, HttpError

_Json = dict[str, Any]
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


@dataclass(frozen=True)
class Interface:
    """
    Attributes:
        answer_field: the field with the JSON schema of an answer.
        messages_field: the field with the conversation.
        error: the body of an error.
        line: how an object of a stream is written.
        media_type: of a stream.
        waiting: what a stream has while there is nothing to tell; empty: nothing may come between.
        end: what a stream ends with.
    """

    answer_field: str
    error: Callable[[HttpError], _Json]
    line: Callable[[_Json], str]
    media_type: str = "text/event-stream"
    waiting: str = ": waiting\n\n"
    end: str = ""
    messages_field: str = "messages"

    def remarks(self, all_stats: Sequence[_Json], prompts: Sequence[Prompt]) -> _Json:
        """What no API has a field for: what was left out of the request's schemas, by its own
        fields, and whether the time ended one of the answers."""
        remarks: _Json = {}
        sentences = all_stats[0].get("left_out")
        if sentences:
            told = [p.explained(s, self.answer_field) for p in prompts[:1] for s in sentences]
            remarks["schema_left_out"] = told or sentences
        if any(stats["stop_reason"] == "timeout" for stats in all_stats):
            remarks["timed_out"] = True
        return remarks


def _text(value: _Json) -> str:
    """JSON without the characters at which some clients end a line."""
    text = json.dumps(value, ensure_ascii=False)
    for character in "\x85\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _event(value: _Json) -> str:
    return f"data: {_text(value)}\n\n"


def _named_event(value: _Json) -> str:
    return f"event: {value['type']}\ndata: {_text(value)}\n\n"


def _anthropic_error(error: HttpError) -> _Json:
    default = "api_error" if error.status >= 500 else "invalid_request_error"
    kind = _ANTHROPIC_TYPES.get(error.status, default)
    details = {"details": {"error_code": error.code}} if error.code == THREAD_NOT_FOUND else {}
    return {"type": "error", "error": {"type": kind, "message": error.message, **details}}


OPENAI = Interface(
    "response_format.json_schema.schema", HttpError.body, _event, end="data: [DONE]\n\n"
)
RESPONSES = Interface("text.format.schema", HttpError.body, _named_event, messages_field="input")
ANTHROPIC = Interface("output_config.format.schema", _anthropic_error, _named_event)
OLLAMA = Interface(
    "format",
    lambda error: {"error": error.message},
    lambda value: _text(value) + "\n",
    "application/x-ndjson",
    waiting="",
)
