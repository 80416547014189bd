"""What a request that is not valid is told: the field as the client wrote it, and what is wrong."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from runtime.server.errors import HttpError, not_valid
from runtime.server.fields import UnknownFields
from runtime.server.interface import ANTHROPIC, OLLAMA, OPENAI, RESPONSES
from runtime.server.messages.requests import MessageRequest
from runtime.server.ollama.requests import ChatBody, GenerateBody, ShowRequest
from runtime.server.replies import Reply
from runtime.server.requests import ChatRequest
from runtime.server.responses.requests import ResponseRequest

_SAID = [{"role": "user", "content": "Hi"}]


def refusal(kind: type[BaseModel], fields: dict[str, Any]) -> HttpError:
    body = {"model": "m", "max_tokens": 1, "messages": _SAID, "input": "Hi", **fields}
    with pytest.raises(ValidationError) as caught:
        kind.model_validate(body)
    return not_valid(caught.value, body)


@pytest.mark.parametrize(
    ("kind", "fields", "place", "reason"),
    [
        # A tag by which a union is chosen is no field, even where a field has its name.
        (
            ChatRequest,
            {"tool_choice": {"type": "function", "name": "f"}},
            "tool_choice.function",
            "is missing",
        ),
        (
            ChatRequest,
            {"tool_choice": {"type": "function", "function": {}}},
            "tool_choice.function.name",
            "is missing",
        ),
        (
            ChatRequest,
            {"response_format": {"type": "json_schema", "json_schema": {"name": 5}}},
            "response_format.json_schema.name",
            "is 5, but must be a string",
        ),
        (ChatRequest, {"stop": [1]}, "stop.0", "is 1, but must be a string"),
        (ChatRequest, {"stop": 1}, "stop", "is 1, but must be a string"),
        (
            MessageRequest,
            {
                "messages": [
                    *_SAID,
                    {
                        "role": "assistant",
                        "content": [
                            {"type": "tool_use", "id": "t", "name": "f", "input": "{}"},
                        ],
                    },
                ]
            },
            "messages.1.content.0.input",
            'is "{}", but must be an object',
        ),
        (
            ResponseRequest,
            {"input": [{"role": "user", "content": [{"type": "input_file"}]}]},
            "input.0.content.0.type",
            'is "input_file"',
        ),
        # What takes only the value that says nothing.
        (ResponseRequest, {"conversation": "c"}, "conversation", "is not supported"),
        (ResponseRequest, {"prompt": {"id": "x"}}, "prompt", "is not supported"),
        (GenerateBody, {"context": [1, 2]}, "context", "is not supported"),
        (GenerateBody, {"suffix": "b"}, "suffix", "is not supported"),
        (ChatBody, {"messages": "Hi"}, "messages", 'is "Hi", but must be a list'),
    ],
)
def test_a_refusal(kind: type[BaseModel], fields: dict[str, Any], place: str, reason: str) -> None:
    error = refusal(kind, fields)
    assert error.param == place and error.message.startswith(f"{place} {reason}")


def test_names_of_functions_are_as_long_as_anthropics() -> None:
    long = {"name": "a" * 128, "input_schema": {"type": "object"}}
    body = {"model": "m", "max_tokens": 1, "messages": _SAID}
    assert MessageRequest.model_validate({**body, "tools": [long]})
    longer = {**long, "name": "a" * 129}
    assert refusal(MessageRequest, {"tools": [longer]}).param == "tools.0.name"


def test_older_clients_of_ollama_show_a_model_by_its_name() -> None:
    assert ShowRequest.model_validate({"name": "m"}).model == "m"
    assert ShowRequest.model_validate({"model": "m"}).model == "m"
    assert refusal(ShowRequest, {"model": 1}).param == "model"


def test_pictures_are_refused_by_the_field_that_has_them() -> None:
    fields = [each.messages_field for each in (OPENAI, ANTHROPIC, OLLAMA, RESPONSES)]
    assert fields == ["messages", "messages", "messages", "input"]


def test_the_form_of_reasoning_that_the_server_has_may_be_asked_for() -> None:
    """By llama.cpp's words for it, and by Groq's."""
    fields = UnknownFields(strict=False)
    for form in ("auto", "deepseek", "parsed"):
        body = {"model": "m", "messages": _SAID, "reasoning_format": form}
        assert fields.take(ChatRequest.model_validate(body)) == ["reasoning_format"]
    with pytest.raises(HttpError, match="reasoning_format is not supported"):
        fields.take(ChatRequest.model_validate({**body, "reasoning_format": "raw"}))


def test_a_fingerprint_is_a_string() -> None:
    """Clients that check a chunk's types have no null there."""
    reply = Reply("chat.completion", "chatcmpl", "m", "1.2")
    assert reply.chunk([])["system_fingerprint"] == "thimble-1.2"
