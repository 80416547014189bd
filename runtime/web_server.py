"""Serves the browser's page and models to this computer."""

import re
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from runtime.errors import RunnerError

TYPES = {
    ".css": "text/css",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".json": "application/json",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
}
# A page with the first two may share memory between its threads.
HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
    "Accept-Ranges": "bytes",
}
RANGE = re.compile(r"bytes=(\d*)-(\d*)")
BLOCK = 1 << 20


def open_server(files: Mapping[str, Path], port: int) -> ThreadingHTTPServer:
    """Returns a server at 127.0.0.1 for files by their address; "" is index.html.

    Args:
        port: 0: any that is free.

    Raises:
        RunnerError: the port is in use, or not allowed.
    """
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), partial(Handler, files))
    except OSError as error:
        raise RunnerError(f"port {port}: {error.strerror}: choose another with --port") from error


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD, also for one range of a file."""

    def __init__(self, files: Mapping[str, Path], *rest: object) -> None:
        self._files = files
        super().__init__(*rest)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, *_: object) -> None:
        """Says nothing: the terminal is the user's."""

    def _answer(self, with_body: bool) -> None:
        address = unquote(urlsplit(self.path).path).lstrip("/") or "index.html"
        try:
            file = self._files[address].open("rb")
        except (KeyError, OSError):
            self._begin(HTTPStatus.NOT_FOUND, {"Content-Length": "0"})
            return
        with file:
            size = file.seek(0, 2)
            kind = TYPES.get(Path(address).suffix, "application/octet-stream")
            start, end = self._range(size)
            headers = {"Content-Type": kind, "Content-Length": str(end - start)}
            if (start, end) == (0, size):
                self._begin(HTTPStatus.OK, headers)
            elif start >= end:
                refused = {"Content-Length": "0", "Content-Range": f"bytes */{size}"}
                self._begin(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, refused)
                return
            else:
                headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
                self._begin(HTTPStatus.PARTIAL_CONTENT, headers)
            if with_body:
                self._send(file, start, end)

    def _begin(self, status: HTTPStatus, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _range(self, size: int) -> tuple[int, int]:
        """The bytes that are asked for: all, unless there is one range."""
        match = RANGE.fullmatch(self.headers.get("Range", ""))
        if match is None or match.groups() == ("", ""):
            return 0, size
        first, last = match.groups()
        if first == "":  # the last bytes
            return max(size - int(last), 0), size
        return int(first), min(int(last) + 1, size) if last else size

    def _send(self, file: BinaryIO, start: int, end: int) -> None:
        file.seek(start)
        try:
            while start < end and (block := file.read(min(BLOCK, end - start))):
                self.wfile.write(block)
                start += len(block)
        except ConnectionError:
            pass  # the page was closed
