"""The server's paths."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute

from runtime.server import audio, embeddings, llama_cpp, openai_paths
from runtime.server.answering import Answering
from runtime.server.gate import Gate, application
from runtime.server.messages import routes as messages
from runtime.server.metrics import Metrics
from runtime.server.ollama import embeddings as ollama_embeddings
from runtime.server.ollama import routes as ollama
from runtime.server.openapi import description
from runtime.server.page_files import routes as page_routes
from runtime.server.realtime import routes as realtime
from runtime.server.responses import routes as responses
from runtime.server.settings import ServerSettings
from runtime.server.shelf import Shelf


def make_app(shelf: Shelf, settings: ServerSettings) -> Starlette:
    """Returns the application; ending it ends the models."""
    metrics = Metrics(shelf)
    shelf.on_end = metrics.answered
    gate = Gate(settings, metrics, shelf)
    answering = Answering(shelf, settings, gate)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await shelf.stop()

    async def openapi(_request: Request) -> Response:
        return JSONResponse(description(shelf.names, settings.api_key is not None))

    routes: list[Route | WebSocketRoute] = [
        *page_routes(),
        Route("/openapi.json", openapi),
        *gate.routes(),
        *realtime(answering),
    ]
    for interface in (openai_paths, embeddings, audio, responses, messages):
        routes += interface.routes(answering)
    for interface in (ollama, ollama_embeddings, llama_cpp):
        routes += interface.routes(answering)
    return application(routes, settings, metrics, lifespan)
