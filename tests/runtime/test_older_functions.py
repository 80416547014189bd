"""OpenAI's older form of functions: read and answered as today's form is."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from pydantic import ValidationError
from support.asked import template_of
from support.call_templates import TEMPLATES
from support.servers import export_caller, serving

from runtime.server.chat import chat_prompts
from runtime.server.requests import ChatRequest

SCHEMA = {
    "type": "object",
    "properties": {"thing": {"enum": ["dog", "cat"]}},
    "required": ["thing"],
}
FUNCTIONS: list[Any] = [{"name": "look", "parameters": SCHEMA}, {"name": "now"}]
TOOLS = [{"type": "function", "function": function} for function in FUNCTIONS]
USER: list[Any] = [{"role": "user", "content": "Once upon a time"}]
CALLED = {"name": "look", "arguments": '{"thing": "dog"}'}


def asked(**fields: Any) -> ChatRequest:
    return ChatRequest.model_validate({"model": "stories", "messages": USER, **fields})


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_history_is_that_of_tools(name: str) -> None:
    """Of calls of one name, a result belongs to the last."""
    older, newer = [*USER], [*USER]
    for index, said in ((1, "It barks."), (3, "It sleeps."), (5, "")):
        call = {"id": f"call_{index}", "type": "function", "function": CALLED}
        older.append({"role": "assistant", "content": None, "function_call": CALLED})
        older.append({"role": "function", "name": "look", "content": said or None})
        newer.append({"role": "assistant", "content": None, "tool_calls": [call]})
        result = {"role": "tool", "name": "look", "tool_call_id": f"call_{index}"}
        newer.append({**result, "content": said})
    template = template_of(TEMPLATES[name])
    one_call = {"parallel_tool_calls": False}
    for older_choice, choice in (
        ({}, {}),
        ({"function_call": "none"}, {"tool_choice": "none"}),
        ({"function_call": {"name": "look"}}, {"tool_choice": {**TOOLS[0]}}),
    ):
        prompts = [
            chat_prompts(request, template)[0]
            for request in (
                asked(messages=older, functions=FUNCTIONS, **older_choice),
                asked(messages=newer, tools=TOOLS, **one_call, **choice),
            )
        ]
        assert prompts[0].pieces == prompts[1].pieces
        assert prompts[0].grammar == prompts[1].grammar


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"functions": FUNCTIONS, "tools": TOOLS}, "give one of both"),
        ({"function_call": "auto"}, "function_call needs functions"),
        ({"functions": [{"name": "f"}] * 2}, "two of the functions have the same name"),
        ({"messages": [{"role": "function", "content": "x"}]}, "needs the function's name"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        asked(**fields)


@pytest.fixture(scope="module")
def client(
    cpp_build: Path, shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[openai.OpenAI]:
    pte = export_caller(shared_data, tmp_path_factory)
    with serving(pte, "--name", "stories", "--threads", "1") as server:
        yield server.client()


@pytest.mark.parametrize("stream", [False, True])
def test_a_call(client: openai.OpenAI, stream: bool) -> None:
    options: dict[str, Any] = {"model": "stories", "messages": USER, "functions": FUNCTIONS}
    options |= {"function_call": {"name": "look"}, "seed": 1, "max_tokens": 200}
    answer: Any = client.chat.completions.create(**options, stream=stream)
    if stream:
        chunks = [chunk.choices[0] for chunk in answer]
        calls = [chunk.delta.function_call for chunk in chunks if chunk.delta.function_call]
        assert not any(chunk.delta.tool_calls for chunk in chunks)
        (call,), reason = calls, chunks[-1].finish_reason
    else:
        message, reason = answer.choices[0].message, answer.choices[0].finish_reason
        assert message.content is None and message.tool_calls is None
        call = message.function_call
    assert reason == "function_call" and call.name == "look"
    assert json.loads(call.arguments)["thing"] in ("dog", "cat")
