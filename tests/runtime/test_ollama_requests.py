"""What Ollama's requests ask for, in the words of chat completions, and their log-probabilities."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support.servers import Server, export_caller, serving

from runtime.server.ollama.requests import GenerateBody, Message, Options
from runtime.server.ollama.routes import _messages
from runtime.server.requests import Sampling


def test_results_belong_to_the_functions_that_they_name() -> None:
    named = [{"function": {"name": name}} for name in ("f", "g", "f")]
    results = [{"role": "tool", "tool_name": n, "content": n} for n in ("g", "f", "other", "f")]
    told = [{"role": "assistant", "tool_calls": named}, *results]
    calls, *answers = _messages([Message.model_validate(message) for message in told])
    first, second, third = (call["id"] for call in calls["tool_calls"])
    assert [answer["tool_call_id"] for answer in answers] == [second, first, third, "call"]


def test_a_seed_of_chance_and_an_empty_schema() -> None:
    asked = {"model": "stories", "options": {"seed": -1}, "format": {}}
    fields = GenerateBody.model_validate(asked).fields
    assert fields["seed"] is None and fields["response_format"]["schema"] == {}


def test_whole_numbers_may_have_a_point() -> None:
    options = {"num_predict": 5.0, "seed": 1e1, "top_k": 40.0, "temperature": 1.0}
    fields = Options.model_validate(options).fields
    assert (fields["max_tokens"], fields["seed"], fields["top_k"]) == (5, 10, 40)
    with pytest.raises(ValueError, match="num_predict"):
        Options.model_validate({"num_predict": 5.5})


@pytest.mark.parametrize(
    ("body", "penalty"),
    [(Options, "repeat_penalty"), (Options, "presence_penalty"), (Sampling, "repetition_penalty")],
)
def test_how_far_back_penalties_look(body: type[Options | Sampling], penalty: str) -> None:
    """It is the whole text, so that another number is refused where it would matter."""
    named = {"model": "m"} if body is Sampling else {}
    nothing = 0 if penalty == "presence_penalty" else 1
    for taken in ({"repeat_last_n": 64}, {"repeat_last_n": 64, penalty: nothing}):
        body.model_validate({**named, **taken})
    body.model_validate({**named, "repeat_last_n": -1, penalty: 1.5})
    with pytest.raises(ValueError, match=f"{penalty} is of the whole text"):
        body.model_validate({**named, "repeat_last_n": 64, penalty: 1.5})


@pytest.fixture(scope="module")
def server(
    cpp_build: Path, shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    pte = export_caller(shared_data, tmp_path_factory)
    with serving(pte, "--name", "stories", "--threads", "1") as server:
        yield server


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("stop", [None, "the"])
def test_logprobs(server: Server, raw: bool, stop: str | None) -> None:
    """Streamed and whole the same, an entry for each token of the answer."""
    options = {"temperature": 0, "num_predict": 24, **({"stop": [stop]} if stop else {})}
    body = {
        "model": "stories",
        "prompt": "Once upon a time",
        "options": options,
        "logprobs": True,
        "raw": raw,
    }
    address = server.address + "/api/generate"
    whole = httpx.post(address, json={**body, "top_logprobs": 2, "stream": False}).json()
    lines = httpx.post(address, json={**body, "top_logprobs": 2}).text.splitlines()
    streamed = [entry for line in lines for entry in json.loads(line).get("logprobs", [])]
    assert whole["logprobs"] == streamed
    text = "".join(entry["token"] for entry in streamed)
    assert text == whole["response"] if not stop else text.startswith(whole["response"])
    for entry in streamed:
        assert len(entry["top_logprobs"]) == 2 and entry["logprob"] <= 0
        assert entry["top_logprobs"][0] == {k: entry[k] for k in ("token", "logprob", "bytes")}
    assert "logprobs" not in httpx.post(address, json={**body, "logprobs": False}).text
