"""The server's paths."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runtime.server import llama_cpp, openai_paths
from runtime.server.answering import Answering
from runtime.server.gate import Gate, application
from runtime.server.messages import routes as messages
from runtime.server.metrics import Metrics
from runtime.server.model import Model
from runtime.server.ollama import routes as ollama
from runtime.server.openapi import description
from runtime.server.page_files import routes as page_routes
from runtime.server.responses import routes as responses
from runtime.server.settings import ServerSettings


def make_app(model: Model, settings: ServerSettings) -> Starlette:
    """Returns the application; starting it loads the model."""
    metrics = Metrics(lambda: model.running, lambda: model.restarts)
    model.on_end = metrics.answered
    gate = Gate(settings, metrics, lambda: model.ready)
    answering = Answering(model, settings, gate)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await model.stop()

    async def openapi(_request: Request) -> Response:
        return JSONResponse(description(settings.model, settings.api_key is not None))

    routes = [
        *page_routes(),
        Route("/openapi.json", openapi),
        *gate.routes(),
    ]
    for interface in (openai_paths, responses, messages, ollama, llama_cpp):
        routes += interface.routes(answering)
    return application(routes, settings, metrics, lifespan)
