"""What every path of a server has in common: keys, bodies, errors, what is counted."""

import asyncio
import hmac
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Lifespan

from runtime.errors import RunnerError
from runtime.server.errors import HttpError, not_valid
from runtime.server.hosts import HostCheck
from runtime.server.metrics import Metrics
from runtime.server.model import BusyError, ModelError
from runtime.server.settings import ServerSettings

_LOG = logging.getLogger("uvicorn.error")


class NamesModel(Protocol):
    """The body of a request, which pydantic checks."""

    model: str

    @classmethod
    def model_validate(cls, value: Any) -> Any: ...


_Body = TypeVar("_Body", bound=NamesModel)


def application(
    routes: list[Route], settings: ServerSettings, lifespan: Lifespan[Starlette]
) -> Starlette:
    """Returns an application of some routes, which answers errors as OpenAI's clients read them."""
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


class Gate:
    """
    Args:
        is_ready: whether the model is loaded.
    """

    def __init__(
        self, settings: ServerSettings, metrics: Metrics, is_ready: Callable[[], bool]
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._is_ready = is_ready

    def routes(self) -> list[Route]:
        """Returns the paths that every server has."""
        return [
            Route("/favicon.ico", lambda _request: Response(status_code=204)),
            Route("/health", self.health),
            Route("/metrics", self.metrics_text),
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.one_model),
        ]

    async def health(self, _request: Request) -> Response:
        ready = self._is_ready()
        return JSONResponse({"status": "ok" if ready else "loading"}, 200 if ready else 503)

    async def metrics_text(self, request: Request) -> Response:
        self.check_key(request)
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")

    async def models(self, request: Request) -> Response:
        self.check_key(request)
        return JSONResponse({"object": "list", "data": [self._model_object()]})

    async def one_model(self, request: Request) -> Response:
        self.check_key(request)
        self.check_model(request.path_params["name"])
        return JSONResponse(self._model_object())

    async def counted(self, request: Request, work: Callable[[], Awaitable[Response]]) -> Response:
        """Does the work of a request; turns what can fail into an error, and counts it."""
        try:
            self.check_key(request)
            response = await work()
        except HttpError as error:
            response = error.response()
        except (RunnerError, TimeoutError) as error:
            response = self.failure(error).response()
        except ClientDisconnect:
            response = Response(status_code=499)
        except Exception:
            _LOG.exception("a request failed")
            response = HttpError(500, "the server failed: its log tells why").response()
        self._metrics.requests.labels(request.url.path, response.status_code).inc()
        return response

    def failure(self, error: Exception) -> HttpError:
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

    async def body(self, request: Request, kind: type[_Body]) -> _Body:
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
        self.check_model(body.model)
        return body

    def check_model(self, name: str) -> None:
        if name != self._settings.model:
            raise HttpError(
                404,
                f"there is no model {name!r}: this server has {self._settings.model!r}",
                "model",
                "model_not_found",
            )

    def check_key(self, request: Request) -> None:
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
