"""An answer with reasoning, text and a call, as each interface passes it on."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from anthropic.types import Message
from ollama import ChatResponse
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
from support.call_templates import HERMES

from runtime.chat_format.conversation import prepare
from runtime.chat_format.template import ChatTemplate
from runtime.server.messages.answers import MessageAnswers
from runtime.server.messages.conversation import chat_of as chat_of_messages
from runtime.server.messages.requests import MessageRequest
from runtime.server.model import Answer, Model
from runtime.server.model_process import ModelOptions, More
from runtime.server.ollama.answers import ChatLines, OllamaAnswers
from runtime.server.responses.answers import ResponseAnswers
from runtime.server.responses.conversation import chat_of, messages_of
from runtime.server.responses.requests import ResponseRequest

THOUGHT, TEXT, ARGUMENTS = "Who was it?\nGoethe.", "I look.", {"name": "Faust"}
CALL = json.dumps({"name": "find", "arguments": ARGUMENTS})
WRITTEN = f"<think>\n{THOUGHT}\n</think>\n\n{TEXT}\n<tool_call>\n{CALL}\n</tool_call>"
TOOL: dict[str, Any] = {"name": "find", "parameters": {"type": "object"}}
STATS = {
    **{"prompt_tokens": 7, "cached_tokens": 5, "generated_tokens": 30},
    **{"stop_reason": "end_of_text", "ttft_s": 0.5, "decode_s": 2.0},
}
TEMPLATE = ChatTemplate(HERMES + "{# </think> #}", "<s>", "</s>", [])
ASKED = ResponseRequest.model_validate({"model": "m", "input": "x"})


def events(size: int) -> AsyncIterator[tuple[int, Any]]:
    async def iterate() -> AsyncIterator[tuple[int, Any]]:
        for at in range(0, len(WRITTEN), size):
            yield 0, More(1, [WRITTEN[at : at + size]], [])
        yield 0, None

    return iterate()


def answer_of(tmp_path: Any) -> list[Answer]:
    answer = Answer(Model(ModelOptions(tmp_path)), 1)
    answer.stats = STATS
    return [answer]


def replies(interface: str, kept: list[Any], json_schema: bool | None = None) -> Any:
    prompt = prepare(
        TEMPLATE,
        [{"role": "user", "content": "x"}],
        tools=[{"type": "function", "function": TOOL}],
        json_schema=json_schema,
    )
    match interface:
        case "responses":

            async def count(text: str) -> int:
                return len(text.split())

            return ResponseAnswers(
                ASKED, prompt, prompt.reader, count, lambda *given: kept.append(given)
            )
        case "messages":
            return MessageAnswers("m", prompt.reader, [prompt])
        case _:
            return OllamaAnswers("m", prompt.reader, ChatLines(), [prompt])


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_response(size: int, tmp_path: Any) -> None:
    kept: list[Any] = []
    whole = asyncio.run(replies("responses", kept).whole(answer_of(tmp_path), events(size)))
    Response.model_validate(whole, strict=True)
    reasoning, message, call = whole["output"]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": THOUGHT}]
    assert message["content"][0]["text"] == TEXT
    assert (call["name"], json.loads(call["arguments"])) == ("find", ARGUMENTS)
    assert whole["usage"]["input_tokens"] == 12 and whole["status"] == "completed"
    assert whole["usage"]["output_tokens_details"]["reasoning_tokens"] == 4
    ((_, (turn,)),) = kept
    assert turn["reasoning_content"] == THOUGHT and turn["content"] == TEXT
    assert turn["tool_calls"][0]["id"] == call["call_id"]
    # What a client hands back is the same turn.
    handed = ResponseRequest.model_validate({"model": "m", "input": whole["output"]})
    assert messages_of(handed.input) == [turn]
    assert chat_of(handed, []).messages[0].reasoning_content == THOUGHT


@pytest.mark.parametrize("size", [1, 1000])
def test_a_stream_of_a_response(size: int, tmp_path: Any) -> None:
    async def gather() -> list[Any]:
        return [c async for c in replies("responses", []).chunks(answer_of(tmp_path), events(size))]

    adapter: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    chunks = asyncio.run(gather())
    for chunk in chunks:
        assert adapter.validate_python(chunk).type == chunk["type"]
    assert [chunk["sequence_number"] for chunk in chunks] == list(range(len(chunks)))
    items: list[Any] = []
    for chunk in chunks:
        match chunk["type"]:
            case "response.output_item.added":
                assert chunk["output_index"] == len(items)
                items.append({"text": ""})
            case "response.output_text.delta" | "response.reasoning_text.delta":
                items[chunk["output_index"]]["text"] += chunk["delta"]
            case "response.function_call_arguments.delta":
                items[chunk["output_index"]]["text"] += chunk["delta"]
    texts = [item["text"] for item in items]
    assert texts[:2] == [THOUGHT, TEXT] and json.loads(texts[2]) == ARGUMENTS
    assert chunks[-1]["type"] == "response.completed"


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_message(size: int, tmp_path: Any) -> None:
    whole = asyncio.run(replies("messages", []).whole(answer_of(tmp_path), events(size)))
    Message.model_validate(whole, strict=True)
    thinking, text, call = whole["content"]
    assert thinking == {"type": "thinking", "thinking": THOUGHT, "signature": ""}
    assert text == {"type": "text", "text": TEXT}
    assert (call["name"], call["input"]) == ("find", ARGUMENTS)
    assert whole["stop_reason"] == "tool_use"
    assert whole["usage"]["input_tokens"] == 7 and whole["usage"]["cache_read_input_tokens"] == 5
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "found"}
    body = {
        "model": "m",
        "max_tokens": 1,
        "messages": [
            {"role": "assistant", "content": whole["content"]},
            {"role": "user", "content": [result, {"type": "text", "text": "And?"}]},
        ],
    }
    turn, told, more = chat_of_messages(MessageRequest.model_validate(body)).messages
    assert turn.reasoning_content == THOUGHT and turn.content == TEXT
    assert turn.tool_calls is not None and turn.tool_calls[0].id == told.tool_call_id
    assert (told.content, more.content) == ("found", "And?")


@pytest.mark.parametrize(
    ("interface", "field"),
    [("responses", "text.format"), ("messages", "output_config.format"), ("ollama", "format")],
)
def test_what_was_left_out_of_a_schema(interface: str, field: str, tmp_path: Any) -> None:
    """Is told of the client's own fields, whole and at the end of a stream."""
    answers = answer_of(tmp_path)
    answers[0].stats = {**STATS, "left_out": ["the rule schema-of-the-answer: no if"]}
    whole = asyncio.run(replies(interface, [], True).whole(answers, events(7)))
    (sentence,) = whole["schema_left_out"]
    assert sentence.startswith(field) and sentence.endswith(": no if")

    async def gather() -> list[Any]:
        return [chunk async for chunk in replies(interface, [], True).chunks(answers, events(7))]

    assert json.dumps([sentence]) in json.dumps(asyncio.run(gather())[-2:])


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_ollamas_chat(size: int, tmp_path: Any) -> None:
    whole = asyncio.run(replies("ollama", []).whole(answer_of(tmp_path), events(size)))
    answer = ChatResponse.model_validate(whole)
    assert (answer.message.thinking, answer.message.content) == (THOUGHT, TEXT)
    (call,) = answer.message.tool_calls or []
    assert (call.function.name, call.function.arguments) == ("find", ARGUMENTS)
    assert (answer.prompt_eval_count, answer.eval_count) == (12, 30)
