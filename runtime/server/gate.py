"""What every path of a server has in common: keys, bodies, errors, what is counted."""

import asyncio
import hmac
import json
import logging
import math
import re
import textwrap
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn, TypeVar

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import Lifespan

from runtime.errors import RunnerError
from runtime.server.errors import HttpError, not_valid
from runtime.server.fields import Fields, UnknownFields
from runtime.server.forms import read_form
from runtime.server.hosts import HostCheck
from runtime.server.interface import ANTHROPIC, OLLAMA, OPENAI, Interface
from runtime.server.metrics import Metrics
from runtime.server.model import BusyError, ModelError
from runtime.server.request_log import BROKEN_OFF, RequestLog
from runtime.server.requests import NamesModel
from runtime.server.served import ServedModel
from runtime.server.settings import ServerSettings
from runtime.server.shelf import Shelf

_LOG = logging.getLogger("uvicorn.error")


Endpoint = Callable[[Request], Awaitable[Response]]
PREFIXES = ("/v1", "", "/openai/v1")  # of what OpenAI's clients and Anthropic's ask for
# What answers instead of llama.cpp's own paths.
_INSTEAD = {"/completion": "/v1/completions", "/embedding": "/v1/embeddings"}
_LONGEST_HEADER = 1000  # characters
_LONGEST_NUMBER = 40
_NAMES = {"model", "name"}  # fields that name the model
_Body = TypeVar("_Body", bound=Fields)


def application(
    routes: list[Route | WebSocketRoute],
    settings: ServerSettings,
    metrics: Metrics,
    lifespan: Lifespan[Starlette],
) -> Starlette:
    """Returns an application of some routes, which answers errors as OpenAI's clients read them."""
    middleware = [Middleware(RequestLog, routes=routes, count=metrics.request)]
    if settings.hosts is not None:
        middleware.append(Middleware(HostCheck, names=settings.hosts))
    if settings.origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(settings.origins),
                allow_methods=["GET", "POST", "DELETE"],
                allow_headers=["*"],
                expose_headers=["X-Request-Id", "X-Ignored-Fields", "Retry-After"],
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
    path = request.url.path
    instead = f": use {_INSTEAD[path]}" if path in _INSTEAD else ""
    reason = {
        404: f"there is nothing at {path}{instead}",
        405: f"{path} does not take {request.method}",
    }.get(error.status_code, error.detail)
    parts = path.split("/")
    first = next((part for part in parts if part not in ("", "v1", "openai")), "")
    interface = {"api": OLLAMA, "messages": ANTHROPIC}.get(first, OPENAI)
    response = HttpError(error.status_code, reason).response(interface.error)
    response.headers.update(error.headers or {})
    return response


def routes_of(path: str, endpoint: Endpoint, method: str = "POST") -> list[Route]:
    """Returns the routes of a path below /v1; clients leave that out, or put /openai before it."""
    return [Route(prefix + path, endpoint, methods=[method]) for prefix in PREFIXES]


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")


def _finite(digits: str) -> float:
    """A number that an answer can repeat: JSON has no infinity."""
    number = float(digits)
    if not math.isfinite(number):
        raise _too_large(digits)
    return number


def _whole(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:  # more digits than Python reads
        raise _too_large(digits) from None


def _too_large(digits: str) -> HttpError:
    return HttpError(400, f"the body has a number that is too large: {digits[:_LONGEST_NUMBER]}")


class Gate:
    def __init__(self, settings: ServerSettings, metrics: Metrics, shelf: Shelf) -> None:
        self._settings = settings
        self._metrics = metrics
        self._shelf = shelf
        self._unknown = UnknownFields(settings.strict_fields)

    def routes(self) -> list[Route]:
        """Returns the paths that every server has."""
        return [
            Route("/favicon.ico", lambda _request: Response(status_code=204)),
            Route("/health", self.health),
            Route("/metrics", self.metrics_text),
            *routes_of("/models", self.models, "GET"),
            *routes_of("/models/{name:path}", self.one_model, "GET"),
        ]

    async def health(self, _request: Request) -> Response:
        ready = self._shelf.ready
        return JSONResponse({"status": "ok" if ready else "loading"}, 200 if ready else 503)

    async def metrics_text(self, request: Request) -> Response:
        self.check_key(request)
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")

    async def models(self, request: Request) -> Response:
        self.check_key(request)
        data = [_model_object(place.served) for place in self._shelf.places]
        ends = {"has_more": False, "first_id": data[0]["id"], "last_id": data[-1]["id"]}
        return JSONResponse({"object": "list", "data": data, **ends})

    async def one_model(self, request: Request) -> Response:
        self.check_key(request)
        served = self._shelf.find(request.path_params["name"]).served
        return JSONResponse(_model_object(served))

    def guarded(self, work: Endpoint, interface: Interface = OPENAI) -> Endpoint:
        """Returns what does the work of a request whose key is right, and turns what can fail into
        an error."""

        async def endpoint(request: Request) -> Response:
            return await self._guarded(request, work, interface)

        return endpoint

    async def _guarded(self, request: Request, work: Endpoint, interface: Interface) -> Response:
        try:
            self.check_key(request)
            response = await work(request)
        except HttpError as error:
            response = error.response(interface.error)
        except (RunnerError, TimeoutError) as error:
            response = self.failure(error, request).response(interface.error)
        except ClientDisconnect:
            response = Response(status_code=BROKEN_OFF)
        except Exception:
            _LOG.exception("a request failed")
            failure = HttpError(500, "the server failed: its log tells why")
            response = failure.response(interface.error)
        ignored = getattr(request.state, "ignored", None)
        if ignored is not None:
            response.headers["X-Ignored-Fields"] = ignored
        return response

    def failure(self, error: Exception, request: Request) -> HttpError:
        if isinstance(error, TimeoutError):
            seconds = self._settings.timeout
            return HttpError(
                504, f"the answer took longer than {seconds:g} seconds", code="timeout"
            )
        if isinstance(error, BusyError):
            status = 503 if error.retry_after is None else 429
            return HttpError(status, str(error), code="busy", retry_after=error.retry_after)
        if isinstance(error, ModelError):
            return HttpError(500, str(error))
        if "context" not in str(error):
            return HttpError(400, str(error))
        reason = str(error)
        served: ServedModel | None = getattr(request.state, "model", None)
        most = None if served is None else served.context
        if most is not None:  # by these words clients know it
            reason = re.sub(r", but the model's context holds \d+", "", reason)
            reason = f"This model's maximum context length is {most} tokens. However, {reason}"
        return HttpError(400, reason, code="context_length_exceeded")

    async def body(self, request: Request, kind: type[_Body]) -> _Body:
        if not _is_json(request):
            raise HttpError(415, "the body must be JSON, with Content-Type: application/json")
        most = self._settings.max_body
        if any(place.served.sees for place in self._shelf.places):
            most += self._settings.max_images * 4 // 3  # in base64
        data = await self._read(request, most)
        try:
            value = json.loads(
                data, parse_constant=_no_number, parse_float=_finite, parse_int=_whole
            )
            json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair has no UTF-8
            if not isinstance(value, dict):
                raise HttpError(400, "the body must be a JSON object")
        except UnicodeEncodeError:
            raise HttpError(400, "the body has half of a surrogate pair, not a character") from None
        except RecursionError:
            raise HttpError(400, "the body is nested too deeply") from None
        except ValueError as error:
            raise HttpError(400, f"the body is not JSON: {error}") from None
        return self._checked(request, kind, value)

    async def form(self, request: Request, kind: type[_Body]) -> tuple[_Body, bytes]:
        """Reads a form with a file; returns its other fields, and the file's bytes."""
        if _media_type(request) != "multipart/form-data":
            raise HttpError(415, "the body must be a form, with Content-Type: multipart/form-data")
        most = self._settings.max_sound + self._settings.max_body  # of the other fields
        data = await self._read(request, most)
        form = await read_form(request.headers, bytes(data))
        if form.file is None:
            raise HttpError(400, "file is missing: send the bytes of a sound", "file")
        if len(form.file) > self._settings.max_sound:
            raise HttpError(413, f"file has more than {self._settings.max_sound} bytes", "file")
        return self._checked(request, kind, form.fields), form.file

    async def _read(self, request: Request, most: int) -> bytearray:
        data = bytearray()
        try:
            async with asyncio.timeout(self._settings.timeout):
                async for part in request.stream():
                    data += part
                    if len(data) > most:
                        raise HttpError(413, f"the body has more than {most} bytes")
        except TimeoutError:
            seconds = self._settings.timeout
            raise HttpError(408, f"the body took longer than {seconds:g} seconds") from None
        return data

    def _checked(self, request: Request, kind: type[_Body], value: dict[str, Any]) -> _Body:
        if issubclass(kind, NamesModel):
            value = {k: v for k, v in value.items() if k not in _NAMES or v not in (None, "")}
            if _NAMES.isdisjoint(value):
                value["model"] = self._shelf.find(None).served.name
        try:
            body = kind.model_validate(value)
        except ValidationError as error:
            raise not_valid(error, value) from None
        except RecursionError:
            raise HttpError(400, "the body is nested too deeply") from None
        names = self._unknown.take(body)
        if names:
            request.state.ignored = _header_of(names)
        if isinstance(body, NamesModel):
            request.state.model = self._shelf.find(body.model).served
        return body

    def check_key(self, request: HTTPConnection, shown: str = "") -> None:
        """
        Args:
            shown: a key that comes in another place than a header.
        """
        key = self._settings.api_key
        if key is None:
            return
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            shown = token
        else:
            shown = request.headers.get("x-api-key", shown)  # as Anthropic's clients send it
        if not hmac.compare_digest(shown.strip().encode(), key.encode()):
            raise HttpError(
                401,
                "the API key is missing or wrong: send Authorization: Bearer KEY, or x-api-key: "
                "KEY",
                code="invalid_api_key",
            )


def _model_object(served: ServedModel) -> dict[str, Any]:
    """A model as OpenAI's clients read it, and Anthropic's."""
    seconds = int(served.file_time)
    return {
        "id": served.name,
        "object": "model",
        "created": seconds,
        "owned_by": "thimble",
        "type": "model",
        "display_name": served.name,
        "created_at": datetime.fromtimestamp(seconds, UTC).isoformat(),
        "capabilities": served.capabilities,  # not OpenAI's
    }


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").split(";")[0].strip().lower()


def _is_json(request: Request) -> bool:
    """Whether a body is JSON by its type, or is of a program that does not tell: `curl -d`, and
    some of Ollama's clients. Of those a web page could send, with its origin, none is taken."""
    media_type = _media_type(request)
    if media_type in ("", "application/x-www-form-urlencoded"):
        return {"origin", "sec-fetch-site"}.isdisjoint(request.headers.keys())
    return media_type == "application/json"


def _header_of(names: Sequence[str]) -> str:
    """Whole names, as many as a header may have: cut behind a comma, it would end with a space,
    which is no header."""
    return textwrap.shorten(
        ", ".join(names),
        _LONGEST_HEADER,
        placeholder=" ...",
        break_on_hyphens=False,
        break_long_words=False,
    )
