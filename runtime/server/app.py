"""The server's paths."""

import asyncio
import hmac
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib.resources import files
from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
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
from runtime.server.errors import HttpError, not_valid
from runtime.server.hosts import HostCheck
from runtime.server.metrics import Metrics
from runtime.server.model import Answer, BusyError, Model, ModelError, RequestError
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
        Route("/favicon.ico", lambda _request: Response(status_code=204)),
        Route("/health", server.health),
        Route("/metrics", server.metrics_text),
        Route("/openapi.json", server.openapi),
        Route("/v1/models", server.models),
        Route("/v1/models/{name:path}", server.one_model),
        Route("/v1/chat/completions", server.chat, methods=["POST"]),
        Route("/v1/completions", server.completions, methods=["POST"]),
    ]
    middleware = []
    if settings.hosts is not None:
        middleware.append(Middleware(HostCheck, names=settings.hosts))
    if settings.origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(settings.origins),
                allow_methods=["GET", "POST"],
                allow_headers=["*"],
            )
        )
    handlers: dict[Any, Any] = {
        HttpError: lambda _request, error: error.response(),
        HTTPException: _not_served,
    }
    return Starlette(
        routes=routes, middleware=middleware, exception_handlers=handlers, lifespan=lifespan
    )


def _not_served(request: Request, error: HTTPException) -> Response:
    reason = {
        404: f"there is nothing at {request.url.path}",
        405: f"{request.url.path} does not take {request.method}",
    }.get(error.status_code, error.detail)
    response = HttpError(error.status_code, reason).response()
    response.headers.update(error.headers or {})
    return response


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
        self._metrics = Metrics(lambda: model.running, lambda: model.restarts)
        model.on_end = self._metrics.answered

    async def page(self, _request: Request) -> Response:
        return HTMLResponse(files("runtime.server").joinpath("page.html").read_text("utf-8"))

    async def health(self, _request: Request) -> Response:
        ready = self._model.ready
        return JSONResponse({"status": "ok" if ready else "loading"}, 200 if ready else 503)

    async def metrics_text(self, request: Request) -> Response:
        self._check_key(request)
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")

    async def openapi(self, _request: Request) -> Response:
        return JSONResponse(description(self._settings.model, self._settings.api_key is not None))

    async def models(self, request: Request) -> Response:
        self._check_key(request)
        return JSONResponse({"object": "list", "data": [self._model_object()]})

    async def one_model(self, request: Request) -> Response:
        self._check_key(request)
        self._check_model(request.path_params["name"])
        return JSONResponse(self._model_object())

    async def chat(self, request: Request) -> Response:
        async def work() -> Response:
            body = await self._body(request, ChatRequest)
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

        return await self._counted(request, work)

    async def completions(self, request: Request) -> Response:
        async def work() -> Response:
            body = await self._body(request, CompletionRequest)
            prompts = completion_prompts(body)
            reply = Reply("text_completion", "cmpl", self._settings.model)
            options = completion_options(body, len(prompts), self._settings.max_tokens)
            answers = CompletionAnswers(body, prompts, reply)
            scored = bool(body.echo) and body.logprobs is not None
            return await self._answer(request, body, prompts, options, answers, scored)

        return await self._counted(request, work)

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
                    yield _event(self._failure(error).body())

            return _Stream(lines(), opened)

        async def whole() -> Response:
            async with opened:
                answers, progress = await open_answers()
                return JSONResponse(await replies.whole(answers, progress.events()))

        return await _unless_gone(request, whole())

    async def _counted(self, request: Request, work: Callable[[], Awaitable[Response]]) -> Response:
        """Does the work of a request; turns what can fail into an error, and counts it."""
        try:
            self._check_key(request)
            response = await work()
        except HttpError as error:
            response = error.response()
        except (RunnerError, TimeoutError) as error:
            response = self._failure(error).response()
        except ClientDisconnect:
            response = Response(status_code=499)
        except Exception:
            _LOG.exception("a request failed")
            response = HttpError(500, "the server failed: its log tells why").response()
        self._metrics.requests.labels(request.url.path, response.status_code).inc()
        return response

    def _failure(self, error: Exception) -> HttpError:
        if isinstance(error, TimeoutError):
            seconds = self._settings.timeout
            return HttpError(
                504, f"the answer took longer than {seconds:g} seconds", code="timeout"
            )
        if isinstance(error, BusyError):
            return HttpError(503, str(error), code="busy")
        if isinstance(error, ModelError):
            return HttpError(500, str(error))
        code = "context_length_exceeded" if "context" in str(error) else None
        return HttpError(400, str(error), code=code)

    async def _body(self, request: Request, kind: type[_Body]) -> _Body:
        media_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if media_type != "application/json":
            raise HttpError(415, "the body must be JSON, with Content-Type: application/json")
        data = bytearray()
        try:
            async with asyncio.timeout(self._settings.timeout):
                async for part in request.stream():
                    data += part
                    if len(data) > self._settings.max_body:
                        most = self._settings.max_body
                        raise HttpError(413, f"the body has more than {most} bytes")
        except TimeoutError:
            seconds = self._settings.timeout
            raise HttpError(408, f"the body took longer than {seconds:g} seconds") from None
        try:
            value = json.loads(data)
            json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair has no UTF-8
            if not isinstance(value, dict):
                raise HttpError(400, "the body must be a JSON object")
            body = kind.model_validate(value)
        except ValidationError as error:
            raise not_valid(error) from None
        except UnicodeEncodeError:
            raise HttpError(400, "the body has half of a surrogate pair, not a character") from None
        except RecursionError:
            raise HttpError(400, "the body is nested too deeply") from None
        except ValueError as error:
            raise HttpError(400, f"the body is not JSON: {error}") from None
        self._check_model(body.model)
        return body

    def _check_model(self, name: str) -> None:
        if name != self._settings.model:
            raise HttpError(
                404,
                f"there is no model {name!r}: this server has {self._settings.model!r}",
                "model",
                "model_not_found",
            )

    def _check_key(self, request: Request) -> None:
        key = self._settings.api_key
        if key is None:
            return
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(shown.strip().encode(), key.encode())
        if scheme.lower() != "bearer" or not right:
            raise HttpError(
                401,
                "the API key is missing or wrong: send Authorization: Bearer KEY",
                code="invalid_api_key",
            )

    def _model_object(self) -> dict[str, Any]:
        return {"id": self._settings.model, "object": "model", "created": 0, "owned_by": "thimble"}


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
