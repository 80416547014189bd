"""Several models in one server: chosen by name, loaded on demand, unloaded for others."""

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import httpx
import ollama
import openai
import pytest
from click.testing import CliRunner
from support.encoder_models import export_embedder
from support.servers import Server, export_caller, serving, wait_for
from support.stories import WITHOUT_ENDS

from runtime.commands.cli import main
from runtime.server.ollama.requests import seconds_of

USER: list[Any] = [{"role": "user", "content": "Once upon a time"}]
LONG: dict[str, Any] = {"messages": USER, "max_tokens": 1500, "temperature": 0}
LONG |= {"logit_bias": WITHOUT_ENDS}
KEY = "k"
# Room for two of the three models: each needs some 62 MB, most of it the process.
ROOM = ("--max-memory", "130M", "--threads", "1", "--parallel", "4")


@pytest.fixture(scope="module")
def pte(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_caller(shared_data, tmp_path_factory)


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_embedder(tmp_path_factory)


@pytest.fixture(scope="module")
def server(cpp_build: Path, pte: Path, embedder: Path) -> Iterator[Server]:
    with serving(f"one={pte}", f"two={pte}", f"rows={embedder}", *ROOM) as server:
        yield server


def chat(server: Server, model: str, **fields: Any) -> httpx.Response:
    body = {"model": model, "messages": USER, "max_tokens": 4, "temperature": 0, **fields}
    return httpx.post(server.address + "/v1/chat/completions", json=body, timeout=120)


def embed(server: Server, model: str = "rows") -> httpx.Response:
    body = {"model": model, "input": "a cat"}
    return httpx.post(server.address + "/v1/embeddings", json=body, timeout=120)


def loaded(server: Server) -> set[str]:
    models = httpx.get(server.address + "/api/ps").json()["models"]
    assert all(model["size"] > 50_000_000 for model in models)
    return {model["name"].removesuffix(":latest") for model in models}


def unload(server: Server, *names: str) -> None:
    for name in names:
        answer = ollama.Client(server.address).generate(name, keep_alive=0)
        assert answer.done_reason == "unload"
    wait_for(lambda: loaded(server).isdisjoint(names))
    wait_for(lambda: len(server.model_processes()) == len(loaded(server)))


def test_models_are_known_before_they_are_loaded(server: Server, pte: Path) -> None:
    unload(server, "one", "two", "rows")
    loads = server.metric("thimble_model_loads_total")
    assert [model.id for model in server.client().models.list()] == ["one", "two", "rows"]
    changed = server.client().models.retrieve("two").created
    assert changed == int(pte.stat().st_mtime)
    listed = anthropic.Anthropic(base_url=server.address, api_key="x").models.list()
    assert [(model.type, model.display_name) for model in listed] == [
        ("model", name) for name in ("one", "two", "rows")
    ]
    assert listed.data[1].created_at.timestamp() == changed and not listed.has_more
    llama = ollama.Client(server.address)
    assert [model.model for model in llama.list().models] == [
        "one:latest",
        "two:latest",
        "rows:latest",
    ]
    assert {int(model.modified_at.timestamp()) for model in llama.list().models[:2]} == {changed}
    assert llama.show("one").capabilities == ["completion", "tools"]
    assert llama.show("rows").capabilities == ["embedding"]
    props = httpx.get(server.address + "/props?model=two").json()
    assert props["model_alias"] == "two" and "messages" in props["chat_template"]
    assert httpx.get(server.address + "/health").json() == {"status": "ok"}
    assert server.metric("thimble_model_loads_total") == loads and not server.model_processes()
    # The exporter's libraries take four times the memory of a server.
    assert "libtorch" not in Path(f"/proc/{server.process.pid}/maps").read_text()


def test_every_interface_chooses(server: Server) -> None:
    client = server.client()
    llama = ollama.Client(server.address)
    text = chat(server, "one").json()["choices"][0]["message"]["content"]
    response = client.responses.create(
        model="two", input="Once upon a time", temperature=0, max_output_tokens=4
    )
    told = llama.chat("one", USER, options={"temperature": 0, "num_predict": 4})
    assert text == response.output_text == told.message.content
    assert loaded(server) == {"one", "two"}
    message = anthropic.Anthropic(base_url=server.address, api_key="none").messages.create(
        model="two", max_tokens=4, messages=USER
    )
    assert message.model == "two"
    completion = client.completions.create(model="one", prompt="Once", max_tokens=2)
    assert completion.model == "one"
    assert embed(server).json()["model"] == "rows"
    tokens = httpx.post(server.address + "/tokenize", json={"model": "one", "content": "Once"})
    assert tokens.json()["tokens"]
    assert server.metric('thimble_requests_total{model="two",path="/v1/messages"}') == 1
    assert server.metric('thimble_tokens_total{model="two",kind="generated"}') == 8
    assert any("POST /v1/messages: 200" in line and "model two" in line for line in server.said)


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        (
            "/v1/chat/completions",
            {"model": "other", "messages": USER},
            404,
            "there is no model 'other': this server has 'one', 'two', 'rows'",
        ),
        (
            "/v1/messages",
            {"model": "../one.pte", "messages": USER, "max_tokens": 1},
            404,
            "there is no model '../one.pte': this server has 'one', 'two', 'rows'",
        ),
        (
            "/api/chat",
            {"model": "https://example.com/one", "messages": USER},
            404,
            "there is no model 'https://example.com/one': this server has 'one', 'two', 'rows'",
        ),
        (
            "/v1/chat/completions",
            {"model": "rows", "messages": USER},
            400,
            "'rows' is a model of embeddings, which does not answer: /v1/embeddings",
        ),
        (
            "/v1/embeddings",
            {"model": "one", "input": "a"},
            400,
            "'one' is a model that answers, and has no embeddings: 'rows' has",
        ),
        *(
            (path, body, 400, "model is missing: this server has 'one', 'two', 'rows'")
            for path, body in (
                ("/v1/chat/completions", {"messages": USER}),
                ("/v1/embeddings", {"input": "a"}),
                ("/api/show", {}),
                ("/api/show", {"model": ""}),
                ("/tokenize", {"content": "a", "model": ""}),
            )
        ),
        (
            "/tokenize",
            {"content": "a"},
            400,
            "model is missing: this server has 'one', 'two', 'rows'",
        ),
    ],
)
def test_what_is_refused(
    server: Server, path: str, body: dict[str, Any], status: int, sentence: str
) -> None:
    answer = httpx.post(server.address + path, json=body)
    error = answer.json()["error"]
    assert answer.status_code == status
    assert (error if isinstance(error, str) else error["message"]) == sentence


def test_the_least_recently_used_goes_with_its_memory(server: Server) -> None:
    unload(server, "one", "two", "rows")
    chat(server, "one")
    first = memory(server)
    chat(server, "two")
    chat(server, "one")
    assert memory(server) > 1.6 * first, (memory(server), first)
    embed(server)
    assert loaded(server) == {"one", "rows"}
    unload(server, "rows")
    assert memory(server) < 1.2 * first, (memory(server), first)
    unload(server, "one")
    assert not server.model_processes()


def memory(server: Server) -> int:
    """Bytes that the processes of the models hold alone."""
    total = 0
    for process in server.model_processes():
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
    return total * 1024


def test_requests_share_a_load(server: Server) -> None:
    unload(server, "one")
    before = server.metric('thimble_model_loads_total{model="one"}')
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: chat(server, "one"), range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert server.metric('thimble_model_loads_total{model="one"}') == before + 1


class Stream:
    """A long answer of a model, which is read to its end in a thread."""

    def __init__(self, server: Server, model: str) -> None:
        self.count = 0
        self._began = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(server, model))
        self._thread.start()
        assert self._began.wait(120)

    def _read(self, server: Server, model: str) -> None:
        for chunk in server.client().chat.completions.create(
            **{**LONG, "model": model}, stream=True
        ):
            self.count += bool(chunk.choices[0].delta.content)
            self._began.set()
            self.reason = chunk.choices[0].finish_reason

    @property
    def is_at_work(self) -> bool:
        return self._thread.is_alive()

    def end(self) -> None:
        self._thread.join()
        assert self.reason == "length" and self.count > 100


def test_one_that_answers_stays_until_it_has(server: Server) -> None:
    """And whoever asks for it then waits until it is there again."""
    unload(server, "rows")
    streams = [Stream(server, "one"), Stream(server, "two")]
    with ThreadPoolExecutor(2) as pool:
        rows = pool.submit(embed, server)
        wait_for(lambda: rows.done() or server.metric('thimble_running{model="rows"}') == 1)
        again = pool.submit(chat, server, "one")
        assert rows.result().status_code == 200
        assert not all(stream.is_at_work for stream in streams)
        assert again.result().status_code == 200
    for stream in streams:
        stream.end()


def test_a_response_goes_on_in_a_model_that_was_unloaded(server: Server) -> None:
    client = server.client()
    asked: dict[str, Any] = {"model": "one", "temperature": 0, "max_output_tokens": 9}
    first = client.responses.create(**asked, input="Once upon a time")
    there = client.responses.create(**asked, input="And?", previous_response_id=first.id)
    unload(server, "one")
    again = client.responses.create(**asked, input="And?", previous_response_id=first.id)
    assert again.output_text == there.output_text
    assert again.usage is not None and again.usage.input_tokens_details.cached_tokens == 0


def test_keep_alive(server: Server) -> None:
    llama = ollama.Client(server.address)
    llama.chat("one", USER, options={"num_predict": 2}, keep_alive="1h")
    (one,) = [model for model in llama.ps().models if model.model == "one:latest"]
    assert one.expires_at is not None and one.expires_at.year < 9999
    llama.chat("one", USER, options={"num_predict": 2}, keep_alive="10ms")
    wait_for(lambda: "one" not in loaded(server))
    answer = llama.generate("one", "Once", options={"num_predict": 2}, keep_alive="soon")  # is none
    assert 10**6 < answer.load_duration < answer.total_duration
    assert "one" in loaded(server)
    assert [seconds_of(text) for text in ("1h30m", "-1", 1e12, "0", "5", "", "m", None)] == [
        5400.0,
        float("inf"),
        float("inf"),
        0.0,
        5.0,
        None,
        None,
        None,
    ]


def test_a_load_that_fails_is_told_and_tried_again(
    cpp_build: Path, pte: Path, tmp_path: Path
) -> None:
    file = tmp_path / "moving.pte"
    shutil.copy(pte, file)
    with serving(file, f"one={pte}", "--threads", "1", "--api-key", KEY) as server:
        client = server.client(KEY)
        file.rename(tmp_path / "elsewhere")
        for _ in range(2):
            with pytest.raises(openai.InternalServerError) as failed:
                client.completions.create(model="moving", prompt="a", max_tokens=1)
            assert "the model 'moving' cannot be loaded: the log tells why" in str(failed.value)
            assert str(tmp_path) not in str(failed.value)
        assert any("moving.pte" in line for line in server.said)
        (tmp_path / "elsewhere").rename(file)
        assert client.completions.create(model="moving", prompt="a", max_tokens=1).choices
        for path in ("/props?model=one", "/api/ps", "/v1/models/one", "/metrics"):
            assert httpx.get(server.address + path).status_code == 401


def test_a_load_goes_on_when_its_request_has_timed_out(cpp_build: Path, pte: Path) -> None:
    """A process does not begin within a tenth of a second."""
    with serving(pte, f"one={pte}", "--threads", "1", "--timeout", "0.1") as server:
        with pytest.raises(openai.InternalServerError) as late:
            server.client().completions.create(model="one", prompt="a", max_tokens=1)
        assert late.value.status_code == 503 and late.value.response.headers["Retry-After"]
        assert "'one' did not come in time: it is still being loaded; try again" in str(late.value)
        wait_for(lambda: loaded(server) == {"one"})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            lambda pte: [f"a={pte}", f"a={pte}"],
            "are both called 'a': give one another name, as NAME=",
        ),
        (lambda pte: [pte, f"b={pte}", "--name", "c"], "--name is for one model"),
        (lambda pte: [pte, f"b={pte}", "--adapter", "c"], "--adapter is for one model"),
        (lambda pte: [f"b={pte}x"], "x: name a .pte file that thimble-export wrote; thimble-run "),
        (lambda pte: [pte, "--max-memory", "2 apples"], "'2 apples' is not a valid size"),
        (
            lambda pte: [f"a={pte}", f"b={pte}", "--max-memory", "40M"],
            "'a' needs about 61.8 MB of memory, but --max-memory is 40.0 MB: set",
        ),
        (lambda pte: [f"a={pte}", __file__], "is not an ExecuTorch program|no integrity record"),
    ],
)
def test_what_cannot_be_served(
    cpp_build: Path, pte: Path, arguments: Callable[[str], list[str]], sentence: str
) -> None:
    given = ["serve", *arguments(str(pte)), "--port", "0"]
    outcome = CliRunner().invoke(main, given)
    assert outcome.exit_code == 2
    assert any(part in outcome.stderr for part in sentence.split("|")), outcome.stderr
