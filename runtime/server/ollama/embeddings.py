"""POST /api/embed, and /api/embeddings, which is older and has one text."""

import time

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runtime.server.answering import Answering
from runtime.server.embeddings import Texts, list_of
from runtime.server.errors import HttpError
from runtime.server.interface import OLLAMA
from runtime.server.ollama.requests import seconds_of
from runtime.server.requests import NamesModel

_NANOSECONDS = 10**9


class _Embedding(NamesModel):
    keep_alive: float | str | None = None


class EmbedBody(_Embedding):
    """The body of POST /api/embed."""

    input: Texts
    truncate: bool | None = Field(None, description="false: longer texts are refused, not cut")


class EmbeddingsBody(_Embedding):
    """The body of POST /api/embeddings."""

    prompt: str


def routes(answering: Answering) -> list[Route]:
    gate = answering.gate

    async def embed(request: Request) -> Response:
        body = await gate.body(request, EmbedBody)
        began = time.monotonic()
        keep = seconds_of(body.keep_alive)
        async with answering.turn(request, body.model, task="embedding", keep=keep) as turn:
            found = await turn.model.embed(list_of(body.input), None)
        if body.truncate is False and found.cut:
            reason = f"{found.cut} of the texts are longer than the context: truncate is false"
            raise HttpError(400, reason, "input")
        return JSONResponse(
            {
                "model": body.model,
                "embeddings": found.rows.tolist(),
                "total_duration": int((time.monotonic() - began) * _NANOSECONDS),
                "load_duration": int(turn.load_s * _NANOSECONDS),
                "prompt_eval_count": found.tokens,
            }
        )

    async def embeddings(request: Request) -> Response:
        body = await gate.body(request, EmbeddingsBody)
        keep = seconds_of(body.keep_alive)
        async with answering.turn(request, body.model, task="embedding", keep=keep) as turn:
            found = await turn.model.embed([body.prompt], None)
        return JSONResponse({"embedding": found.rows[0].tolist()})

    return [
        Route("/api/embed", gate.guarded(embed, OLLAMA), methods=["POST"]),
        Route("/api/embeddings", gate.guarded(embeddings, OLLAMA), methods=["POST"]),
    ]
