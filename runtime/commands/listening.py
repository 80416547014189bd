"""Serves on a listening socket, until the process is asked to end."""

import asyncio
import signal
import socket
from contextlib import nullcontext
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from runtime.server.shelf import Shelf

_MESSAGE = 4 << 20  # bytes of a WebSocket's
_KEEP_ALIVE_S = 75  # longer than clients keep idle connections, which so are theirs to close


async def listen(
    shelf: "Shelf", app: "Starlette", listener: socket.socket, patience: float
) -> None:
    """Serves until the process is asked to end; answers then end too."""
    import uvicorn

    from runtime.server.connections import Connection, Readers

    host, port = listener.getsockname()[:2]
    place = f"[{host}]" if ":" in host else host
    *others, last = shelf.names
    what = f"{', '.join(others)} and {last} are" if others else f"{last} is"
    click.echo(f"{what} at http://{place}:{port} (Ctrl-C ends it)", err=True)
    config = uvicorn.Config(
        app,
        http=partial(Connection, readers=Readers(patience)),  # type: ignore[arg-type]
        log_level="warning",
        access_log=False,
        server_header=False,
        ws_max_size=_MESSAGE,
        ws_per_message_deflate=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=5,
        lifespan="on",
    )
    server = uvicorn.Server(config)
    loop = asyncio.get_running_loop()

    def end(number: int, frame: FrameType | None) -> None:
        server.handle_exit(number, frame)
        loop.call_soon_threadsafe(shelf.fail_all, "the server is stopping")

    for number in (signal.SIGINT, signal.SIGTERM):  # both end it well: with exit code 0
        signal.signal(number, end)
    server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
    await server.serve(sockets=[listener])
