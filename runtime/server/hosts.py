"""Which hosts a server answers for.

A web page can make its own name mean this computer (DNS rebinding): the browser then takes the
server for the page's, and lets the page read what it answers. Such requests still tell the page's
name as their host.
"""

import re
from collections.abc import Collection
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.server.errors import HttpError

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:/@\[\]]+))(?::[0-9]*)?")


class HostCheck:
    """Refuses requests for hosts other than this computer and the ones that are named.

    Args:
        names: names and addresses without a port.
    """

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app = app
        self._names = {_same(name.strip("[]")) for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            header = Headers(scope=scope).get("host", "")
            name = host_name(header)
            if name is None:
                error = HttpError(400, f"the request's Host is {header!r}, which is not a host")
                return await error.response()(scope, receive, send)
            if not (is_loopback(name) or name in self._names):
                error = HttpError(
                    421,
                    f"the host {name!r} is not this server's: use the address that it was started "
                    f"with, or start it with --allowed-host {name}",
                    code="host_not_allowed",
                )
                return await error.response()(scope, receive, send)
        await self._app(scope, receive, send)


def host_name(header: str) -> str | None:
    """The name or address in a Host header, in lower case, without port, brackets and the root's
    dot; None if there is none."""
    match = _HOST.fullmatch(header.strip())
    return _same(match[1] or match[2]) if match else None


def is_loopback(name: str) -> bool:
    """Whether a name always means the computer that uses it."""
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _same(name: str) -> str:
    """One form of all that mean the same."""
    name = name.lower().removesuffix(".")
    try:
        return str(ip_address(name))
    except ValueError:
        return name
