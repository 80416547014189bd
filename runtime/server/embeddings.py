"""POST /v1/embeddings, of models that embed texts."""

import base64
import secrets
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runtime.server.answering import Answering
from runtime.server.gate import routes_of
from runtime.server.requests import NamesModel

_MOST_TEXTS = 2048  # of a request, as OpenAI has it


def _refuse_tokens(value: object) -> object:
    first = value[0] if isinstance(value, list) and value else None
    if isinstance(first, int | list) and not isinstance(first, bool):
        raise ValueError(
            "send texts, for tokens of OpenAI's models are not this model's; LangChain's "
            "OpenAIEmbeddings does so with check_embedding_ctx_length=False"
        )
    return value


Texts = Annotated[
    str | Annotated[list[str], Field(min_length=1, max_length=_MOST_TEXTS)],
    BeforeValidator(_refuse_tokens),
]


class EmbeddingRequest(NamesModel):
    """Texts to embed."""

    input: Texts
    encoding_format: Literal["float", "base64"] | None = None
    prompt_name: str | None = Field(None, description="not OpenAI's")


def list_of(texts: Texts) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


def routes(answering: Answering) -> list[Route]:
    gate = answering.gate

    async def embeddings(request: Request) -> Response:
        body = await gate.body(request, EmbeddingRequest)
        async with answering.turn(request, body.model, task="embedding") as turn:
            found = await turn.model.embed(list_of(body.input), body.prompt_name)
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": _encoded(row, body.encoding_format),
            }
            for index, row in enumerate(found.rows)
        ]
        usage = {"prompt_tokens": found.tokens, "total_tokens": found.tokens}
        answer = {
            "id": f"embd-{secrets.token_hex(12)}",  # without which mistralai's client fails
            "object": "list",
            "data": data,
            "model": turn.served.name,
            "usage": usage,
        }
        return JSONResponse(answer)

    return routes_of("/embeddings", gate.guarded(embeddings))


def _encoded(row: "NDArray[np.float32]", encoding: str | None) -> list[float] | str:
    """A row as numbers, or in base64 its float32, lowest byte first."""
    if encoding == "base64":
        return base64.b64encode(row.astype("<f4").tobytes()).decode()
    numbers: list[float] = row.tolist()
    return numbers
