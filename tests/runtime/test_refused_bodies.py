"""What a request that is not valid is told: the field as the client wrote it, and what is wrong."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from runtime.server.errors import HttpError, not_valid
from runtime.server.fields import Fields, UnknownFields
from runtime.server.interface import ANTHROPIC, OLLAMA, OPENAI, RESPONSES
from runtime.server.messages.conversation import chat_of as chat_of_messages
from runtime.server.messages.requests import MessageRequest
from runtime.server.ollama.requests import ChatBody, GenerateBody, ShowRequest
from runtime.server.replies import Reply
from runtime.server.requests import ChatRequest, CompletionRequest
from runtime.server.responses.conversation import chat_of as chat_of_response
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


@pytest.mark.parametrize("kind", [ResponseRequest, MessageRequest, CompletionRequest])
@pytest.mark.parametrize(
    ("name", "value", "nothing"),
    [
        ("chat_template_kwargs", {"enable_thinking": False}, {}),
        ("tool_choice", "required", None),
        ("structured_outputs", {"regex": "a"}, None),
        ("seed", 0, None),
        ("repetition_penalty", 1.1, 1),
    ],
)
def test_what_chats_alone_obey(
    kind: type[Fields], name: str, value: object, nothing: object
) -> None:
    """A client must not believe that it was obeyed elsewhere; each path knows some of them."""
    fields, body = UnknownFields(strict=False), {"model": "m", "prompt": "a", "max_tokens": 1}
    body |= {"messages": _SAID} if kind is MessageRequest else {"input": "a"}
    if kind is ResponseRequest:
        del body["max_tokens"], body["prompt"]
    if name not in kind.model_fields:
        fields.take(kind.model_validate({**body, name: nothing}))
        with pytest.raises(HttpError, match=f"^{name} is not supported"):
            fields.take(kind.model_validate({**body, name: value}))


@pytest.mark.parametrize("kind", [ResponseRequest, MessageRequest, CompletionRequest])
def test_each_field_of_chats_is_obeyed_or_refused(kind: type[Fields]) -> None:
    """By the other paths too: a new one is given a row there."""
    refine = {"dry_allowed_length", "dry_base", "dry_penalty_last_n", "dynatemp_exponent"}
    refine |= {"mirostat_eta", "mirostat_tau", "xtc_threshold", "stream_options"}
    no_answers = {"messages", "modalities", "verbosity", "add_special_tokens"}
    chats, own = (
        {field.alias or name for name, field in one.model_fields.items()}
        for one in (ChatRequest, kind)
    )
    assert chats - own - set(kind.UNSUPPORTED) <= refine | no_answers


def test_threads_are_not_kept() -> None:
    """Anthropic's clients send the rest of a conversation alone, and all of it where they are told
    by the error's details that the thread is not found."""
    body = {"model": "m", "max_tokens": 1, "messages": _SAID}
    assert chat_of_messages(MessageRequest(**body, thread={"type": "create"})).messages
    more = {"type": "continue", "previous_message_id": "msg_1"}
    with pytest.raises(HttpError, match="send the whole conversation") as caught:
        chat_of_messages(MessageRequest(**body, thread=more))
    told = ANTHROPIC.error(caught.value)["error"]
    assert caught.value.status == 404 and told["type"] == "not_found_error"
    assert told["details"] == {"error_code": "thread_not_found"}


def test_a_result_without_its_call() -> None:
    """The beginning of the conversation is missing, as the interfaces' own APIs say too."""
    result = {"type": "tool_result", "tool_use_id": "a", "content": "3"}
    turn = {"role": "user", "content": [result]}
    with pytest.raises(HttpError, match="'a' has no call before it"):
        chat_of_messages(MessageRequest(model="m", max_tokens=1, messages=[turn]))
    call = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    turns = [*_SAID, {"role": "assistant", "content": [call]}, turn]
    assert chat_of_messages(MessageRequest(model="m", max_tokens=1, messages=turns)).messages

    output = {"type": "function_call_output", "call_id": "a", "output": "3"}
    request = ResponseRequest(model="m", input=[output])
    with pytest.raises(HttpError, match="'a' has no call before it") as caught:
        chat_of_response(request, [])
    assert caught.value.param == "input"
    called = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert chat_of_response(request, [*_SAID, {"role": "assistant", "tool_calls": [called]}])
