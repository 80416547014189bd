"""The interfaces beside chat completions, asked by the clients of those who made them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import jsonschema
import ollama
import openai
import pytest
from openai.types.responses import Response
from pydantic import BaseModel, Field
from support.servers import Server, export_caller, serving

USER = "Once upon a time"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 9}, "old": {"type": "boolean"}},
    "required": ["name", "old"],
    "additionalProperties": False,
}
FUNCTION: Any = {"type": "function", "name": "f", "parameters": SCHEMA, "strict": True}
ASKED: dict[str, Any] = {"model": "stories", "input": USER, "temperature": 0}
MESSAGE: dict[str, Any] = {
    "model": "stories",
    "max_tokens": 24,
    "messages": [{"role": "user", "content": USER}],
    "extra_body": {"temperature": 0},  # which the client of today has no argument for
}
GREEDY = {"temperature": 0, "num_predict": 24}


class Person(BaseModel):
    name: str = Field(max_length=9)
    old: bool


@pytest.fixture(scope="module")
def server(
    cpp_build: Path, shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    pte = export_caller(shared_data, tmp_path_factory)
    with serving(pte, "--name", "stories", "--threads", "1") as server:
        yield server


@pytest.fixture(scope="module")
def client(server: Server) -> openai.OpenAI:
    return server.client()


@pytest.fixture(scope="module")
def anthropic_client(server: Server) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=server.address, api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def llama(server: Server) -> ollama.Client:
    return ollama.Client(server.address)


@pytest.fixture(scope="module")
def expected(client: openai.OpenAI) -> str:
    """What chat completions answer."""
    messages: Any = [{"role": "user", "content": USER}]
    answer = client.chat.completions.create(
        model="stories", messages=messages, max_tokens=24, temperature=0
    )
    return answer.choices[0].message.content or ""


def test_a_response(client: openai.OpenAI, expected: str) -> None:
    answer = client.responses.create(**ASKED, max_output_tokens=24, instructions=None)
    assert answer.output_text == expected != ""
    assert answer.status == "incomplete" and answer.incomplete_details is not None
    assert answer.usage is not None and answer.usage.output_tokens == 24
    with client.responses.stream(**ASKED, max_output_tokens=24) as stream:
        events = list(stream)
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted(numbers) and len(set(numbers)) == len(numbers)
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == expected
    ended = events[-1]
    assert ended.type == "response.incomplete" and ended.response.output_text == expected


def test_a_response_is_what_openais_types_are(server: Server) -> None:
    body = {**ASKED, "max_output_tokens": 8}
    found = httpx.post(server.address + "/v1/responses", json=body, timeout=60).json()
    Response.model_validate(found, strict=True)
    assert found == httpx.get(f"{server.address}/v1/responses/{found['id']}").json()


def test_a_response_goes_on(client: openai.OpenAI) -> None:
    first = client.responses.create(**ASKED, max_output_tokens=9)
    more: dict[str, Any] = {"model": "stories", "temperature": 0, "max_output_tokens": 9}
    second = client.responses.create(**more, input="And then?", previous_response_id=first.id)
    whole = client.responses.create(
        **more,
        input=[
            {"role": "user", "content": USER},
            *first.output,  # type: ignore[list-item]  # as openai's examples hand it back
            {"role": "user", "content": [{"type": "input_text", "text": "And then?"}]},
        ],
    )
    assert second.output_text == whole.output_text
    assert second.usage is not None and second.usage.input_tokens_details.cached_tokens > 0
    assert client.responses.input_items.list(second.id).data
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError, match="it was not stored, or removed"):
        client.responses.retrieve(first.id)
    with pytest.raises(openai.BadRequestError, match="send the whole conversation as input") as at:
        client.responses.create(**more, input="x", previous_response_id=first.id)
    assert at.value.code == "previous_response_not_found"


def test_a_response_of_a_schema_and_of_functions(client: openai.OpenAI) -> None:
    answer = client.responses.parse(**ASKED, text_format=Person, max_output_tokens=400)
    assert isinstance(answer.output_parsed, Person)
    asked: dict[str, Any] = {**ASKED, "tools": [FUNCTION], "max_output_tokens": 400}
    named = {"type": "function", "name": "f"}
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [named]}
    for choice in (named, "required", "any", allowed):
        called = client.responses.create(**asked, tool_choice=choice, parallel_tool_calls=False)
        (call,) = called.output
        assert call.type == "function_call" and call.name == "f"
        jsonschema.validate(json.loads(call.arguments), SCHEMA)
    with client.responses.stream(**asked, tool_choice="required") as stream:
        events = list(stream)
    done = [event for event in events if event.type == "response.function_call_arguments.done"]
    assert done and done[0].arguments == call.arguments
    told = client.responses.create(
        model="stories",
        max_output_tokens=4,
        input=[
            {"role": "user", "content": USER},
            call.to_dict(),  # type: ignore[list-item]
            {"type": "function_call_output", "call_id": call.call_id, "output": "It is so."},
        ],
    )
    assert told.output_text


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"input": []}, "input must be a list of length 1 or more"),
        ({"tools": [{"type": "web_search"}]}, "tools.0.type"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input_image"),
        ({"tool_choice": "required"}, "tool_choice needs tools"),
        ({"text": {"format": {"type": "json_schema", "name": "x", "schema": {"if": {}}}}}, "if"),
        ({"background": True}, "background"),
    ],
)
def test_responses_refuse(server: Server, fields: dict[str, Any], reason: str) -> None:
    answer = httpx.post(server.address + "/v1/responses", json={**ASKED, **fields}, timeout=60)
    assert answer.status_code == 400 and reason in answer.json()["error"]["message"]


def test_a_message(anthropic_client: anthropic.Anthropic, expected: str) -> None:
    answer = anthropic_client.messages.create(**MESSAGE, system="")
    assert [block.to_dict() for block in answer.content][0]["type"] == "text"
    plain = anthropic_client.messages.create(**MESSAGE)
    (block,) = plain.content
    assert block.type == "text" and block.text == expected
    assert plain.stop_reason == "max_tokens" and plain.usage.output_tokens == 24
    with anthropic_client.messages.stream(**MESSAGE) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == expected and final.content[0].to_dict()["text"] == expected
    assert final.usage.output_tokens == 24 and final.stop_reason == "max_tokens"
    stop = expected[5:8]
    stopped = anthropic_client.messages.create(**MESSAGE, stop_sequences=[stop, "zzz"])
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", stop)
    counted = anthropic_client.messages.count_tokens(model="stories", messages=MESSAGE["messages"])
    used = plain.usage.input_tokens + (plain.usage.cache_read_input_tokens or 0)
    assert counted.input_tokens == used


def test_a_message_of_functions(anthropic_client: anthropic.Anthropic) -> None:
    tools: Any = [{"name": "f", "input_schema": SCHEMA}]
    asked: dict[str, Any] = {**MESSAGE, "tools": tools, "max_tokens": 400}
    asked["tool_choice"] = {"type": "any", "disable_parallel_tool_use": True}
    with anthropic_client.messages.stream(**asked) as stream:
        streamed = stream.get_final_message()
    for answer in (streamed, anthropic_client.messages.create(**asked)):
        (call,) = answer.content
        assert call.type == "tool_use" and call.name == "f" and answer.stop_reason == "tool_use"
        jsonschema.validate(call.input, SCHEMA)
    told = anthropic_client.messages.create(
        model="stories",
        max_tokens=4,
        tools=tools,
        messages=[
            *MESSAGE["messages"],
            {"role": "assistant", "content": answer.content},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": call.id, "content": "It is so."},
                    {"type": "text", "text": "And?", "cache_control": {"type": "ephemeral"}},
                ],
            },
        ],
    )
    assert told.usage.output_tokens == 4
    format: Any = {"format": {"type": "json_schema", "schema": SCHEMA}}
    written = anthropic_client.messages.create(
        **{**MESSAGE, "max_tokens": 400}, output_config=format
    )
    jsonschema.validate(json.loads(written.content[0].to_dict()["text"]), SCHEMA)  # type: ignore[arg-type]


def test_messages_refuse(server: Server, anthropic_client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError, match="there is no model 'other'"):
        anthropic_client.messages.create(**{**MESSAGE, "model": "other"})
    with pytest.raises(anthropic.BadRequestError, match="is not continued") as refused:
        anthropic_client.messages.create(
            **{**MESSAGE, "messages": [{"role": "assistant", "content": "x"}]}
        )
    assert refused.value.body["error"]["type"] == "invalid_request_error"  # type: ignore[index]
    picture = {"type": "image", "source": {"type": "url", "url": "x"}}
    body = {"model": "stories", "max_tokens": 1}
    asked = {**body, "messages": [{"role": "user", "content": [picture]}]}
    answer = httpx.post(server.address + "/v1/messages", json=asked)
    assert answer.status_code == 400 and "does not see" in answer.json()["error"]["message"]


def test_ollamas_chat(llama: ollama.Client, expected: str) -> None:
    messages = [{"role": "user", "content": USER}]
    answer = llama.chat("stories", messages, options=GREEDY)
    assert answer.message.content == expected and answer.done_reason == "length"
    assert answer.eval_count == 24 and answer.done
    lines = list(llama.chat("stories:latest", messages, options=GREEDY, stream=True))
    assert "".join(line.message.content or "" for line in lines) == expected
    assert [line.done for line in lines] == [False] * (len(lines) - 1) + [True]
    written = llama.chat("stories", messages, format=SCHEMA, options={"seed": 1})
    jsonschema.validate(json.loads(written.message.content or ""), SCHEMA)
    assert llama.chat("stories", []).done_reason == "load"


def test_ollamas_functions(server: Server, llama: ollama.Client) -> None:
    call = {"function": {"name": "f", "arguments": {"name": "x", "old": True}}}
    told = llama.chat(
        "stories",
        [
            {"role": "user", "content": USER},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_name": "f", "content": "It is so."},
        ],
        tools=[{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
        options={"num_predict": 4},
    )
    assert told.eval_count == 4


def test_ollamas_generate(llama: ollama.Client, client: openai.OpenAI, expected: str) -> None:
    assert llama.generate("stories", USER, options=GREEDY).response == expected
    lines = llama.generate("stories", USER, options=GREEDY, stream=True)
    assert "".join(line.response for line in lines) == expected
    plain = client.completions.create(model="stories", prompt=USER, max_tokens=24, temperature=0)
    raw = llama.generate("stories", USER, options=GREEDY, raw=True)
    assert raw.response == plain.choices[0].text != expected
    told = llama.generate("stories", USER, options=GREEDY, raw=True, format={"const": "é"})
    assert told.response == '"é"'
    assert llama.generate("stories").done_reason == "load"


def test_ollamas_models(server: Server, llama: ollama.Client) -> None:
    (listed,) = llama.list().models
    assert listed.model == "stories:latest" and listed.details is not None
    assert listed.details.parameter_size == "260.0K"
    shown = llama.show("stories")
    assert shown.capabilities == ["completion", "tools"]
    assert shown.modelinfo is not None and shown.modelinfo["llama.context_length"] == 2048
    assert llama.ps().models[0].model == "stories:latest"
    assert httpx.get(server.address + "/api/version").json().keys() == {"version"}
    assert httpx.post(server.address + "/api/pull", json={"model": "x"}).status_code == 404
    with pytest.raises(ollama.ResponseError, match="there is no model 'other'") as refused:
        llama.chat("other", [{"role": "user", "content": USER}])
    assert refused.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="options.mirostat is 3, but must be at most 2"):
        llama.generate("stories", USER, options={"mirostat": 3})


def test_tokens(server: Server) -> None:
    def post(path: str, **body: Any) -> Any:
        return httpx.post(server.address + path, json=body).json()

    text = "Once upon a time, ü"
    tokens = post("/tokenize", content=text)["tokens"]
    assert post("/tokenize", content=text, add_special=True)["tokens"] == [1, *tokens]
    assert post("/tokenize", content="</s>", parse_special=True)["tokens"] == [2]
    assert 2 not in post("/tokenize", content="</s>")["tokens"]
    assert post("/detokenize", tokens=tokens)["content"].strip() == text
    pieces = post("/tokenize", content="Once", with_pieces=True)["tokens"]
    assert "".join(piece["piece"] for piece in pieces).strip() == "Once"
    assert (
        "the model has tokens 0 to 511" in post("/detokenize", tokens=[10**6])["error"]["message"]
    )
    props = httpx.get(server.address + "/props").json()
    assert props["default_generation_settings"]["n_ctx"] == 2048
    assert not any("/" in str(value) for name, value in props.items() if name != "chat_template")


ALLOWED = {
    "type": "allowed_tools",
    "allowed_tools": {
        "mode": "required",
        "tools": [{"type": "function", "function": {"name": "f"}}],
    },
}
DIGITS = "root ::= digit{3}\ndigit ::= [0-9]\n"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize(
    ("fields", "pattern"),
    [
        ({"regex": "[a-c]{3}"}, "[a-c]{3}"),
        ({"choice": ["left ", 'ri"ght']}, 'left |ri"ght'),
        ({"grammar": DIGITS}, "[0-9]{3}"),
        ({"guided_regex": "[a-c]{3}", "grammar": ""}, "[a-c]{3}"),
        ({"guided_choice": ["yes", "no"]}, "yes|no"),
        ({"guided_grammar": DIGITS}, "[0-9]{3}"),
        ({"guided_json": '{"enum": ["x"]}'}, '"x"'),
        ({"json_schema": {"enum": ["x"]}}, '"x"'),
        ({"structured_outputs": {"regex": "[a-c]{3}"}}, "[a-c]{3}"),
        ({"structured_outputs": {"choice": ["yes", "no"]}}, "yes|no"),
        ({"structured_outputs": {"grammar": DIGITS}}, "[0-9]{3}"),
        ({"structured_outputs": {"json": {"enum": ["x"]}}}, '"x"'),
        ({"response_format": {"type": "json_object", "schema": {"enum": ["x"]}}}, '"x"'),
        ({"response_format": {"type": "json_object", "value": {"enum": ["x"]}}}, '"x"'),
    ],
)
def test_what_an_answer_must_be(
    server: Server, path: str, fields: dict[str, Any], pattern: str
) -> None:
    asked = {"messages": MESSAGE["messages"]} if "chat" in path else {"prompt": USER}
    body = {"model": "stories", "max_tokens": 60, "seed": 1, **asked, **fields}
    choice = httpx.post(server.address + path, json=body, timeout=60).json()["choices"][0]
    text = choice["message"]["content"] if "chat" in path else choice["text"]
    assert re.fullmatch(pattern, text) and choice["finish_reason"] == "stop"


def test_fields_as_clients_of_local_models_send_them(server: Server) -> None:
    def asked(path: str = "/v1/chat/completions", **fields: Any) -> Any:
        body = {"model": "stories", "messages": MESSAGE["messages"], "temperature": 0, **fields}
        answer = httpx.post(server.address + path, json=body, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()["choices"][0]

    plain = asked(max_tokens=8)["message"]["content"]
    harmless = {"top_k": -1, "ignore_eos": False, "min_tokens": 0, "length_penalty": 1.0}
    harmless |= {"bad_words": [], "typical_p": 1, "reasoning_format": "deepseek"}
    harmless |= {"stop": [f"z{n}" for n in range(9)], "reasoning_effort": "max"}
    assert asked(max_tokens=8, **harmless)["message"]["content"] == plain
    stop = plain[-2:]
    for limit in ({"max_tokens": -1}, {"max_tokens": None}, {"max_completion_tokens": -1}):
        assert asked(stop=stop, **limit)["message"]["content"] == plain[: plain.index(stop)]
    said = asked("/v1/completions", prompt=USER, messages=None, max_tokens=-1, top_k=0, stop=".")
    assert said["finish_reason"] == "stop" and len(said["text"]) > 30
    tools = [
        {"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in "fg"
    ]
    for seed in range(3):
        for choice in (ALLOWED, "any"):
            one = {"parallel_tool_calls": False, "temperature": 1, "seed": seed}
            found = asked(tools=tools, tool_choice=choice, max_tokens=400, **one)
            (call,) = found["message"]["tool_calls"]
            assert call["function"]["name"] in ("f" if choice == ALLOWED else "fg")


def test_fields_that_are_not_known(server: Server) -> None:
    body: dict[str, Any] = {"model": "stories", "messages": MESSAGE["messages"], "max_tokens": 2}
    body["messages"] = [{**body["messages"][0], "weight": 1}]
    answer = httpx.post(
        server.address + "/chat/completions",
        json={**body, "foo": 1, "bar": None, "a\r\nb: c, d": 1, "": 1, " ": 1},
    )
    assert answer.status_code == 200
    assert answer.headers["X-Ignored-Fields"] == "foo, a??b:?c??d, ?, messages.weight"
    for length in range(4, 9):  # wherever the header's end cuts them
        many = {f"{n:0{length}}": 1 for n in range(300)}
        answer = httpx.post(server.address + "/v1/chat/completions", json={**body, **many})
        *names, last = answer.headers["X-Ignored-Fields"].split(", ")
        assert (names, last) == (list(many)[: len(names)], "...") and len(names) > 90
    path = "/openai/v1/chat/completions"  # as Groq's client has it
    refused = httpx.post(server.address + path, json={**body, "min_tokens": 4})
    assert refused.status_code == 400
    assert refused.json()["error"]["message"] == "min_tokens is not supported"
    inserting = {"model": "stories", "prompt": "x", "max_tokens": 1}
    for suffix, status in ("", 200), ("y", 400):
        answer = httpx.post(server.address + "/completions", json={**inserting, "suffix": suffix})
        assert answer.status_code == status
