"""What the server refuses: one sentence each, with the status that OpenAI's clients know."""

import re
import socket
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from pydantic import ValidationError
from starlette.testclient import TestClient
from support.servers import Server, export_caller, serving, wait_for

from runtime.commands.cli import main
from runtime.server.errors import not_valid
from runtime.server.gate import application
from runtime.server.metrics import Metrics
from runtime.server.openapi import description
from runtime.server.requests import ChatRequest, CompletionRequest
from runtime.server.settings import ServerSettings
from runtime.server.shelf import Shelf

USER: list[Any] = [{"role": "user", "content": "Once upon a time"}]


@pytest.fixture(scope="module")
def pte(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_caller(shared_data, tmp_path_factory)


@pytest.fixture(scope="module")
def server(cpp_build: Path, pte: Path) -> Iterator[Server]:
    options = ("--threads", "1", "--allowed-host", "Box.local", "--allowed-host", "fd00::1")
    with serving(pte, "--name", "stories", *options) as server:
        yield server


@pytest.mark.parametrize("named", [{}, {"model": None}, {"model": ""}, {"name": ""}], ids=str)
def test_the_only_model_needs_no_name(server: Server, named: dict[str, Any]) -> None:
    for path, body in (
        ("/v1/completions", {"prompt": "a", "max_tokens": 1}),
        ("/v1/messages", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1}),
        ("/tokenize", {"content": "a"}),
    ):
        assert httpx.post(server.address + path, json={**body, **named}).status_code == 200


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "prompt is missing"),
        ({"prompt": "x", "temperature": "9"}, 'temperature is "9", but must be a number'),
        ({"prompt": "x", "top_k": 1.5}, "top_k is 1.5, but must be a whole number"),
        ({"prompt": "x", "n": 0}, "n is 0, but must be at least 1"),
        ({"prompt": "x", "stream": "yes"}, 'stream is "yes", but must be true or false'),
        ({"prompt": 3}, "prompt is 3, but must be a string or a list"),
        (
            {"prompt": [1.5]},
            "prompt.0 is 1.5, but must be a string, a whole number or a list",
        ),
        ({"prompt": "x", "best_of": 3}, "best_of is 3, but must be 1"),
        ({"prompt": "x", "user": {}}, "user must be a string"),
    ],
)
def test_pydantics_faults_are_said_in_our_words(fields: dict[str, Any], sentence: str) -> None:
    body = {"model": "m", **fields}
    with pytest.raises(ValidationError) as caught:
        CompletionRequest.model_validate(body)
    assert not_valid(caught.value, body).message == sentence


def test_a_format_without_its_schema() -> None:
    body = {"model": "m", "messages": USER, "response_format": {"type": "json_schema"}}
    with pytest.raises(ValidationError) as caught:
        ChatRequest.model_validate(body)
    assert not_valid(caught.value, body).message == "response_format.json_schema is missing"


def test_the_readme_names_the_fields_without_effect() -> None:
    readme = (Path(__file__).resolve().parents[2] / "runtime/server/README.md").read_text("utf-8")
    named = readme.partition("`reasoning` is the same. ")[2].partition("have no effect")[0]
    listed = description(["m"], False)["info"]["description"].partition("without effect: ")[2]
    assert set(re.findall(r"[a-z_.]{3,}", named)) == {
        *listed.partition(";")[0].split(", "),
        "and",
    }


@pytest.mark.parametrize(
    ("fields", "status", "sentence"),
    [
        ({"ignore_eos": True}, 400, "^ignore_eos is not supported$"),
        ({"n_predict": 5}, 400, "^n_predict is not supported: use max_tokens$"),
        ({"prompt_logprobs": 0}, 400, "^prompt_logprobs is not supported$"),
        ({"structured_outputs": {"structural_tag": "x"}}, 400, "structural_tag is not supported"),
        ({"add_special_tokens": True}, 400, "^add_special_tokens: true is not supported"),
        ({"max_tokens": 0}, 400, "^max_tokens: 0 is not supported: at least 1 token, or -1"),
        ({"top_k": -2}, 400, "^top_k is -2, but must be at least -1"),
        ({"regex": "a", "guided_choice": ["b"]}, 400, "^regex and guided_choice are given, but an"),
        ({"grammar": "x", "response_format": {"type": "json_object"}}, 400, "^response_format and"),
        ({"structured_outputs": {"regex": "a", "json": {}}}, 400, "^structured_outputs.json and"),
        ({"regex": "a\\1"}, 400, "^regex: the regular expression 'a.1' is refused at offset 1"),
        ({"guided_grammar": "root ::= a"}, 400, "^guided_grammar: the grammar is not valid at"),
        ({"guided_json": "{"}, 400, "^guided_json is a text, but not a schema in JSON"),
        ({"json_schema": {"if": {}}}, 400, '^json_schema: the JSON schema has the keyword "if"'),
        ({"choice": []}, 400, "^choice must be a list of length 1 or more"),
        ({"choice": ["a", ""]}, 400, "^the choice has an empty text: leave it out$"),
        ({"regex": ""}, 400, "^regex: the regular expression is empty: give one, or leave it"),
        ({"structured_outputs": {"grammar": ""}}, 400, "^structured_outputs.grammar: the grammar"),
        ({"adapter": "b"}, 400, "^adapter is not supported: use --adapter when the server is"),
        (
            {"messages": [{"role": "user", "content": "Once " * 3000}]},
            400,
            r"^This model's maximum context length is \d+ tokens\. However, [a-z ]+ \d+ tokens: sh",
        ),
        (
            {
                "tools": [{"type": "function", "function": {"name": "f"}}],
                "tool_choice": {
                    "type": "allowed_tools",
                    "allowed_tools": {
                        "mode": "auto",
                        "tools": [{"type": "function", "function": {"name": "g"}}],
                    },
                },
            },
            400,
            "^tool_choice allows 'g', which is not in tools",
        ),
        ({"functions": "f"}, 400, 'functions is "f", but must be a list'),
        ({"temperature": 3}, 400, "temperature is 3, but must be at most 2$"),
        ({"mirostat": 3}, 400, "mirostat is 3, but must be at most 2$"),
        ({"dry_sequence_breakers": ["x"]}, 400, "dry_sequence_breakers is not supported$"),
        ({"messages": []}, 400, "messages must be a list of length 1 or more"),
        ({"messages": [{"role": "tool", "content": "x"}]}, 400, "needs tool_call_id"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "messages"),
        (
            {"model": "x" * 5000},
            404,
            r"^there is no model 'x{481}\.\.\.x+': this server has 'stories'$",
        ),
        ({"model": "gpt-4"}, 404, "there is no model 'gpt-4': this server has 'stories'"),
        ({"chat_template_kwargs": {"add_generation_prompt": True}}, 400, "add_generation_prompt"),
        ({"stop": ["a"] * 65}, 400, "stop must be a list of length 64 or less"),
        ({"stop": ""}, 400, '^stop is "", but must be a string of length 1 or more'),
        ({"logit_bias": {"9" * 5000: 1}}, 400, "not the number of a token"),
        ({"n": 17}, 400, "n is 17, but must be at most 16"),
        ({"tool_choice": "required"}, 400, "tool_choice needs tools"),
        ({"logit_bias": {"x": 1}}, 400, "not the number of a token"),
        ({"logit_bias": {"99999": 1}}, 400, "99999"),
        ({"messages": [{"role": "user", "content": "a" * 9000}]}, 400, "context"),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": {"if": {}}},
                }
            },
            400,
            '^response_format.json_schema.schema: the JSON schema has the keyword "if" at #',
        ),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": {"enum": []}},
                }
            },
            400,
            "^response_format.json_schema.schema has no text that matches",
        ),
    ],
)
def test_requests_that_are_not_possible(
    server: Server, fields: dict[str, Any], status: int, sentence: str
) -> None:
    response = httpx.post(
        server.address + "/v1/chat/completions",
        json={"model": "stories", "messages": USER, "max_tokens": 5, **fields},
        timeout=120,
    )
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert re.search(sentence, error["message"])


def test_bodies_that_are_not_valid(server: Server) -> None:
    address = server.address + "/v1/chat/completions"
    as_json = {"content-type": "application/json"}
    for content, headers, status, sentence in [
        (b"{", as_json, 400, "is not JSON"),
        (b"[]", as_json, 400, "must be a JSON object"),
        (b"[" * 100_000, as_json, 400, "is nested too deeply"),
        (b"\xff\xfe", as_json, 400, "is not JSON"),
        (b'{"model": "half \\ud83d of a pair"}', as_json, 400, "half of a surrogate pair"),
        (b'{"metadata": {"x": NaN}}', as_json, 400, "NaN is not a number"),
        (b'{"metadata": {"x": -1e999}}', as_json, 400, "a number that is too large: -1e999"),
        (b'{"seed": 1e400}', as_json, 400, "a number that is too large: 1e400"),
        (b'{"seed": 1' + b"0" * 5000 + b"}", as_json, 400, "a number that is too large: 1000"),
        (b"{}", {"content-type": "text/plain"}, 415, "must be JSON"),
        # Programs that do not tell, and what a web page could send instead.
        (b"{", {}, 400, "is not JSON"),
        (b"{", {"content-type": "application/x-www-form-urlencoded"}, 400, "is not JSON"),
        (b"{", {"origin": "http://evil.example"}, 415, "must be JSON"),
        (b"{", {"sec-fetch-site": "same-site"}, 415, "must be JSON"),
        (b" " * (5 << 20), as_json, 413, "bytes"),
    ]:
        response = httpx.post(address, content=content, headers=headers)
        assert response.status_code == status
        assert sentence in response.json()["error"]["message"]
    assert httpx.get(address).status_code == 405
    assert httpx.get(server.address + "/v2").status_code == 404
    assert httpx.get(server.address + "/v1").status_code == 404
    for prefix in ("/v1", "", "/openai/v1"):  # as Anthropic's client reads errors
        batches = httpx.post(f"{server.address}{prefix}/messages/batches", json={})
        assert batches.status_code == 404 and batches.json()["error"]["type"] == "not_found_error"
        assert batches.json()["type"] == "error"


def test_paths_with_nothing_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has each in one line, the metrics none."""
    told: list[str] = []
    monkeypatch.setattr(
        "runtime.server.request_log._LOG.info",
        lambda line, *facts: told.append((line % facts).split(": 404 in ")[0]),
    )
    metrics = Metrics(Shelf([]))
    app = application([], ServerSettings(hosts=None), metrics, lambda _app: nullcontext())
    client = TestClient(app)
    for path in ("/completion", "/v1/chat/completion", "/a%0Ab%1b%20%C3%A9", "/" + 5000 * "x"):
        answer = client.post(path)
        assert answer.status_code == 404
        sentence = answer.json()["error"]["message"]
        assert sentence.endswith("completion: use /v1/completions") == (path == "/completion")
    assert told == [
        "POST /completion",
        "POST /v1/chat/completion",
        "POST /a%0Ab%1B%20%C3%A9",
        f"POST /{199 * 'x'}...",
    ]
    text = metrics.text().decode()
    assert 'path="other",status="404"} 4.0' in text and "completion" not in text


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST.:8080", 200),
        ("127.0.0.1:80", 200),
        ("127.3.2.1", 200),
        ("[::1]:8080", 200),
        ("[0:0:0:0:0:0:0:1]", 200),
        ("box.LOCAL:1", 200),
        ("[fd00:0::1]:1", 200),
        ("evil.example", 421),
        ("localhost.evil.example:8080", 421),
        ("127.0.0.1.evil.example", 421),
        ("notbox.local", 421),
        ("[fd00::2]", 421),
        ("192.168.0.7", 421),
        ("evil@localhost", 400),
        ("[::1", 400),
        ("a b", 400),
        ("", 400),
    ],
)
def test_hosts(server: Server, host: str, status: int) -> None:
    """A page whose name was made to mean this computer gets nothing."""
    for path in ("/health", "/v1/models", "/"):
        response = httpx.get(server.address + path, headers={"host": host})
        assert response.status_code == status, response.text
    if status != 200:
        error = response.json()["error"]
        assert error["message"].count("host") or "Host" in error["message"]
        assert (error["code"] == "host_not_allowed") == (status == 421)


def test_any_host_where_others_may_come(cpp_build: Path, pte: Path) -> None:
    """What listens to others needs a key, which a page does not have."""
    with serving(pte, "--host", "0.0.0.0", "--api-key", "k", "--threads", "1") as server:
        address = server.address.replace("0.0.0.0", "127.0.0.1")
        for host, key, status in (("my.box", "k", 200), ("my.box", "wrong", 401)):
            headers = {"host": host, "authorization": f"Bearer {key}"}
            assert httpx.get(address + "/v1/models", headers=headers).status_code == status


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/nope", "/health"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_body_with_a_bad_chunk(server: Server, path: str, method: str) -> None:
    """Whatever the server does with the request when it comes: that its log has no traceback, the
    fixture checks."""
    url = httpx.URL(server.address)
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    chunked = (head + "Transfer-Encoding: chunked\r\n\r\n").encode()
    for parts in (
        [chunked + b"ZZ\r\n"],
        [chunked, b"ZZ\r\n"],
        [chunked, b"2\r\n{}\r\n", b"ZZ\r\n"],
    ):
        with socket.create_connection((url.host, url.port), timeout=60) as connection:
            for part in parts:
                connection.sendall(part)
                time.sleep(0.01)  # so that they are likely to come apart
            received = b""
            while more := connection.recv(1 << 16):
                received += more
            assert received.startswith(b"HTTP/1.1 ")
    assert httpx.get(server.address + "/health").status_code == 200


def test_more_answers_than_places(server: Server) -> None:
    body = {"model": "stories", "prompt": ["x"] * 64, "n": 2}
    response = httpx.post(server.address + "/v1/completions", json=body)
    assert response.status_code == 400
    assert "asks for 128 answers" in response.json()["error"]["message"]


def test_a_prompt_that_takes_too_long_to_score(cpp_build: Path, pte: Path) -> None:
    with serving(pte, "--name", "stories", "--threads", "1", "--timeout", "0.1") as server:
        prompts = [f"{n} " + "a b " * 450 for n in range(32)]
        body = {"model": "stories", "prompt": prompts, "echo": True, "logprobs": 1}
        response = httpx.post(server.address + "/v1/completions", json=body, timeout=120)
        assert response.status_code == 504
        assert "took longer than 0.1 seconds" in response.json()["error"]["message"]
        wait_for(lambda: server.metric("thimble_running") == 0)


def test_a_port_in_use(cpp_build: Path, pte: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        outcome = CliRunner().invoke(main, ["serve", str(pte), "--port", str(port)])
    said = f"Error: cannot listen on 127.0.0.1 port {port}: Address already in use\n"
    assert (outcome.exit_code, outcome.stderr) == (2, said)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["missing.pte"], "there is no file missing.pte: name a .pte"),
        (["{pte}", "--host", "0.0.0.0"], "give an --api-key"),
        (["{pte}", "--api-key", "é"], "--api-key must be"),
        (["{pte}", "--stall-timeout", "nan"], "must be numbers of seconds, not nan"),
        (["{pte}", "--allowed-host", "a:b:c/d"], "is not a name or an address without a port"),
        (["{pte}", "--cors", "http://localhost:3000/"], "is not an origin, such as http://"),
        (["{pte}", "--adapter", "x"], "adapter"),
        (["{damaged}"], "damaged|not a"),
    ],
)
def test_what_cannot_be_served(
    cpp_build: Path, pte: Path, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    damaged = tmp_path / "damaged.pte"
    damaged.write_bytes(pte.read_bytes()[:1000])
    given = [argument.format(pte=pte, damaged=damaged) for argument in arguments]
    result = CliRunner().invoke(main, ["serve", *given, "--port", "0"])
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit)
    assert re.search(f"Error: .*({sentence})", result.stderr)
