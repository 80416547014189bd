"""The page to chat with: its own files, and those that it shares with the browser's page."""

import asyncio
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_PAGE = Path(__file__).parent / "page"
_WEB = Path(__file__).resolve().parents[1] / "web"
_OWN = (
    *("style.css", "page.mjs", "answers.mjs", "pictures.mjs"),
    *("live.mjs", "transcripts.mjs", "sound_form.mjs", "microphone.mjs", "samples.mjs"),
)
_SHARED = (
    *("page/kept.mjs", "page/log.css", "page/log.mjs", "page/markdown.mjs"),
    *("vendor/marked.esm.js", "vendor/purify.min.js"),
)
_TYPES = {".html": "text/html", ".css": "text/css"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; media-src blob:; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


def routes() -> list[Route]:
    """Returns a route for each file: no request can name another."""
    files = {
        "/": _PAGE / "index.html",
        **{f"/page/{name}": _PAGE / name for name in _OWN},
        **{f"/web/{name}": _WEB / name for name in _SHARED},
    }
    return [_route(address, path) for address, path in files.items()]


def _route(address: str, path: Path) -> Route:
    async def serve(_request: Request) -> Response:
        data = await asyncio.to_thread(path.read_bytes)
        return Response(data, 200, _HEADERS, _TYPES.get(path.suffix, "text/javascript"))

    return Route(address, serve)
