"""What is told of each request: a number for the client, a line in the log, a count."""

import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runtime.server.errors import HttpError

_LOG = logging.getLogger("runtime.server")
_LOG.setLevel(logging.INFO)
_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)
_OTHER = "other"  # the counted path of what is not served: clients make them up
_LONGEST_PATH = 200  # characters
BROKEN_OFF = 499  # an answer that its client did not wait for
_STARTS = ("http.response.start", "websocket.http.response.start", "websocket.accept")
_BODIES = ("http.response.body", "websocket.http.response.body")


class RequestLog:
    """
    Args:
        routes: whose paths are counted; all others are one. The log has those too, escaped and cut.
        count: called with the path, the status and the model of each request, when it has ended;
            "": it has no model.
    """

    def __init__(
        self,
        app: ASGIApp,
        routes: Iterable[Route | WebSocketRoute],
        count: Callable[[str, int, str], None],
    ) -> None:
        self._app = app
        self._paths: dict[object, str] = {}
        for route in routes:
            self._paths.setdefault(route.endpoint, route.path)
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        name = given if _ID.fullmatch(given) else secrets.token_hex(8)
        began, status, complete = time.monotonic(), 500, False

        async def told(message: Message) -> None:
            nonlocal status, complete
            type = message["type"]
            if type == "websocket.accept":
                status, complete = 101, True  # either side may end it
            if type in _STARTS:
                MutableHeaders(scope=message)["X-Request-Id"] = name
                status = message.get("status", status)
            complete = complete or (type in _BODIES and not message.get("more_body"))
            await send(message)

        try:
            if headers.get("content-encoding", "identity") != "identity":
                error = HttpError(
                    415, "the body must not be compressed: leave out Content-Encoding"
                )
                return await error.response()(scope, receive, told)
            await self._app(scope, receive, told)
        finally:
            path = self._paths.get(scope.get("endpoint"))
            status = status if complete else BROKEN_OFF
            served = scope.get("state", {}).get("model")
            model = "" if served is None else served.name
            self._count(path or _OTHER, status, model)
            seconds = time.monotonic() - began
            _LOG.info(
                "%s %s: %d in %.3f s, request %s%s",
                *(scope.get("method", "WebSocket"), path or _escaped(scope["path"])),
                *(status, seconds, name, f", model {model}" if model else ""),
            )


def _escaped(path: str) -> str:
    """As it is in an address: without control characters, in one line."""
    text = quote(path)
    return text if len(text) <= _LONGEST_PATH else f"{text[:_LONGEST_PATH]}..."
