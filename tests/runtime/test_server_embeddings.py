"""The server of a model of embeddings, as OpenAI's own client sees it."""

import base64
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import ollama
import openai
import pytest
from support.encoder_models import TEXTS, export_embedder
from support.servers import Server, serving

from runtime import Embedder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, cpp_build: Path) -> Path:
    return export_embedder(tmp_path_factory)


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[Server]:
    with serving(model) as found:
        yield found


@pytest.mark.parametrize("encoding", ["float", "base64", None])
def test_rows_by_openais_client(encoding: str | None, model: Path, server: Server) -> None:
    """Which asks for base64 unless told otherwise."""
    texts = list(TEXTS)
    given = {} if encoding is None else {"encoding_format": encoding}
    answer = server.client().embeddings.create(model="model", input=texts, **given)  # type: ignore[call-overload]
    with Embedder(model) as embedder:
        wanted = embedder.embed(texts)
        query = embedder.encode(["a cat"], prompt_name="query")[0]
    rows = [
        np.frombuffer(base64.b64decode(item.embedding), "<f4")
        if isinstance(item.embedding, str)
        else np.array(item.embedding, np.float32)
        for item in answer.data
    ]
    assert np.array_equal(np.stack(rows), wanted.rows)
    assert [item.index for item in answer.data] == list(range(len(texts)))
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == wanted.tokens
    assert str((answer.model_extra or {})["id"]).startswith("embd-")
    one = server.client().embeddings.create(
        model="model",
        input="a cat",
        encoding_format="float",
        extra_body={"prompt_name": "query"},
    )
    assert np.array_equal(np.array(one.data[0].embedding, np.float32), query)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"input": []}, "input must be a list of length 1 or more"),
        ({"input": [[1, 2]]}, "input: send texts, for tokens of OpenAI's models"),
        ({"input": [1, 2]}, "input: send texts, for tokens of OpenAI's models"),
        ({"input": [True]}, "input.0 is true, but must be a string"),
        ({"input": "a", "dimensions": 8}, "dimensions is not supported"),
        ({"input": "a", "prompt_name": "other"}, "the model has no prompt 'other'"),
        ({"input": "a", "encoding_format": "x"}, 'encoding_format is "x", but must be'),
    ],
)
def test_what_is_refused(fields: dict[str, object], sentence: str, server: Server) -> None:
    answer = httpx.post(server.address + "/v1/embeddings", json={"model": "model", **fields})
    assert answer.status_code == 400 and sentence in answer.json()["error"]["message"]


def test_other_paths(server: Server) -> None:
    assert [one.id for one in server.client().models.list()] == ["model"]
    assert httpx.get(server.address + "/health").json() == {"status": "ok"}
    with pytest.raises(openai.BadRequestError, match="'model' is a model of embeddings, which"):
        server.client().completions.create(model="model", prompt="a")


def test_rows_by_ollamas_client(model: Path, server: Server) -> None:
    llama = ollama.Client(server.address)
    texts = list(TEXTS)
    with Embedder(model) as embedder:
        wanted = embedder.encode(texts)
    answer = llama.embed("model", texts)
    assert np.array_equal(np.array(answer.embeddings, np.float32), wanted)
    one = llama.embeddings("model", texts[0])
    assert np.array_equal(np.array(one.embedding, np.float32), wanted[0])
    with pytest.raises(ollama.ResponseError, match="1 of the texts are longer than the context"):
        llama.embed("model", texts, truncate=False)
    with pytest.raises(ollama.ResponseError, match="which does not answer"):
        llama.generate("model", "a")
