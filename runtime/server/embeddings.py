"""POST /v1/embeddings, of a server whose model embeds texts."""

import asyncio
import base64
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from runtime.embedder import Embedder
from runtime.server.gate import Gate, application, both_routes
from runtime.server.metrics import Metrics
from runtime.server.requests import NamesModel
from runtime.server.settings import ServerSettings

_MOST_TEXTS = 2048  # of a request, as OpenAI has it


class EmbeddingRequest(NamesModel):
    """Texts to embed."""

    input: str | Annotated[list[str], Field(min_length=1, max_length=_MOST_TEXTS)]
    encoding_format: Literal["float", "base64"] | None = None
    prompt_name: str | None = Field(None, description="not OpenAI's")

    @property
    def texts(self) -> list[str]:
        return [self.input] if isinstance(self.input, str) else self.input


def make_embedding_app(embedder: Embedder, settings: ServerSettings) -> Starlette:
    """Returns the application of a loaded model."""
    server = _Server(embedder, settings)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(embedder.close)

    routes = [
        *server.gate.routes(),
        *both_routes("/embeddings", server.gate.guarded(server.embeddings)),
    ]
    return application(routes, settings, server.metrics, lifespan)


class _Server:
    def __init__(self, embedder: Embedder, settings: ServerSettings) -> None:
        self._embedder = embedder
        self._settings = settings
        self._running = 0
        self.metrics = Metrics(lambda: self._running, lambda: 0)
        self.gate = Gate(settings, self.metrics, lambda: True)

    async def embeddings(self, request: Request) -> Response:
        body = await self.gate.body(request, EmbeddingRequest)
        self._running += 1
        try:
            vectors = await asyncio.to_thread(self._embedder.embed, body.texts, body.prompt_name)
        finally:
            self._running -= 1
        return JSONResponse(self._answer(vectors.rows, vectors.tokens, body.encoding_format))

    def _answer(
        self, rows: "NDArray[np.float32]", tokens: int, encoding: str | None
    ) -> dict[str, Any]:
        data = [
            {"object": "embedding", "index": index, "embedding": _encoded(row, encoding)}
            for index, row in enumerate(rows)
        ]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {
            "id": f"embd-{secrets.token_hex(12)}",  # without which mistralai's client fails
            "object": "list",
            "data": data,
            "model": self._settings.model,
            "usage": usage,
        }


def _encoded(row: "NDArray[np.float32]", encoding: str | None) -> list[float] | str:
    """A row as numbers, or in base64 its float32, lowest byte first."""
    if encoding == "base64":
        return base64.b64encode(row.astype("<f4").tobytes()).decode()
    numbers: list[float] = row.tolist()
    return numbers
