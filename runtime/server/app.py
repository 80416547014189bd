"""The server's paths."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib.resources import files
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from runtime.errors import RunnerError
from runtime.server.chat import (
    ChatAnswers,
    chat_options,
    chat_prompts,
    chat_readers,
    explained,
    need_template,
)
from runtime.server.completions import CompletionAnswers, completion_options, completion_prompts
from runtime.server.gate import Gate, application
from runtime.server.metrics import Metrics
from runtime.server.model import Answer, Model, RequestError
from runtime.server.openapi import description
from runtime.server.replies import Reply
from runtime.server.requests import ChatRequest, CompletionRequest, Sampling
from runtime.server.settings import ServerSettings
from runtime.server.streams import Progress, answers_to, progress_of

_LOG = logging.getLogger("uvicorn.error")
_Body = TypeVar("_Body", bound=Sampling)


def make_app(model: Model, settings: ServerSettings) -> Starlette:
    """Returns the application; starting it loads the model."""
    server = _Server(model, settings)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await model.stop()

    routes = [
        Route("/", server.page),
        Route("/openapi.json", server.openapi),
        *server.gate.routes(),
        Route("/v1/chat/completions", server.chat, methods=["POST"]),
        Route("/v1/completions", server.completions, methods=["POST"]),
    ]
    return application(routes, settings, lifespan)


class _Stream(StreamingResponse):
    """A stream of events, which ends its answers when it ends, also before its first event."""

    def __init__(self, lines: AsyncIterator[str], opened: AsyncExitStack) -> None:
        super().__init__(lines, media_type="text/event-stream")
        self._opened = opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._opened:
            await super().__call__(scope, receive, send)


class _Server:
    """The functions behind the paths."""

    def __init__(self, model: Model, settings: ServerSettings) -> None:
        self._model = model
        self._settings = settings
        metrics = Metrics(lambda: model.running, lambda: model.restarts)
        model.on_end = metrics.answered
        self.gate = Gate(settings, metrics, lambda: model.ready)

    async def page(self, _request: Request) -> Response:
        return HTMLResponse(files("runtime.server").joinpath("page.html").read_text("utf-8"))

    async def openapi(self, _request: Request) -> Response:
        return JSONResponse(description(self._settings.model, self._settings.api_key is not None))

    async def chat(self, request: Request) -> Response:
        async def work() -> Response:
            body = await self.gate.body(request, ChatRequest)
            template = need_template(self._model.template)
            prompts = await asyncio.to_thread(chat_prompts, body, template)
            reply = Reply("chat.completion", "chatcmpl", self._settings.model)
            readers, relax = chat_readers(body, prompts), self._settings.relax
            options = chat_options(body, prompts, readers, self._settings.max_tokens, relax)
            pieces = [prompt.pieces for prompt in prompts]
            answers = ChatAnswers(body, prompts, readers, reply)
            try:
                return await self._answer(request, body, pieces, options, answers, scored=False)
            except RequestError as error:
                raise RequestError(explained(prompts[0], str(error))) from None

        return await self.gate.counted(request, work)

    async def completions(self, request: Request) -> Response:
        async def work() -> Response:
            body = await self.gate.body(request, CompletionRequest)
            prompts = completion_prompts(body)
            reply = Reply("text_completion", "cmpl", self._settings.model)
            options = completion_options(body, len(prompts), self._settings.max_tokens)
            answers = CompletionAnswers(body, prompts, reply)
            scored = bool(body.echo) and body.logprobs is not None
            return await self._answer(request, body, prompts, options, answers, scored)

        return await self.gate.counted(request, work)

    async def _answer(
        self,
        request: Request,
        body: Sampling,
        prompts: list[Any],
        options: list[dict[str, Any]],
        replies: ChatAnswers | CompletionAnswers,
        scored: bool,
    ) -> Response:
        deadline = asyncio.get_running_loop().time() + self._settings.timeout
        opened = AsyncExitStack()

        async def open_answers() -> tuple[list[Answer], Progress]:
            async with asyncio.timeout_at(deadline):
                work = answers_to(self._model, prompts, options, scored)
                answers = await opened.enter_async_context(work)
            return answers, await opened.enter_async_context(progress_of(answers, deadline))

        if body.stream:
            answers, progress = await open_answers()

            async def lines() -> AsyncIterator[str]:
                try:
                    async for chunk in replies.chunks(answers, progress.events()):
                        yield _event(chunk)
                    yield "data: [DONE]\n\n"
                except (RunnerError, TimeoutError) as error:
                    yield _event(self.gate.failure(error).body())

            return _Stream(lines(), opened)

        async def whole() -> Response:
            async with opened:
                answers, progress = await open_answers()
                return JSONResponse(await replies.whole(answers, progress.events()))

        return await _unless_gone(request, whole())


def _event(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"


async def _unless_gone(request: Request, work: Any) -> Response:
    """Does the work, unless the client hangs up first: then the work is cancelled."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    task, watch = asyncio.create_task(work), asyncio.create_task(gone())
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            return Response(status_code=499)
        return await task
    finally:
        task.cancel()
        watch.cancel()
