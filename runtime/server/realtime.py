"""GET /v1/realtime: OpenAI's WebSocket of sound that arrives, for models that read it so."""

import asyncio
import secrets
from contextlib import AsyncExitStack, suppress
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from runtime.agreed_text import AgreedText
from runtime.errors import RunnerError
from runtime.server.answering import Answering
from runtime.server.errors import HttpError
from runtime.server.gate import PREFIXES, routes_of
from runtime.server.hearing_process import Heard, Took
from runtime.server.model import Answer, BusyError, Model
from runtime.server.realtime_events import RATE, SAMPLE, Event, Session, pieces, read_event

_SILENT_S = 60.0  # without more of a sound, after which it is ended: others wait for the model
_MOST_AHEAD = 4  # pieces of a second that the model has not heard
_PROTOCOL, _KEY = "realtime", "openai-insecure-api-key."  # browsers send a key as a protocol
_TEXT = "conversation.item.input_audio_transcription"


def routes(answering: Answering) -> list[Route | WebSocketRoute]:
    async def realtime(socket: WebSocket) -> None:
        protocols = socket.scope["subprotocols"]
        try:
            keys = [one.removeprefix(_KEY) for one in protocols if one.startswith(_KEY)]
            answering.gate.check_key(socket, *keys[:1])
            _check_origin(socket, answering.settings.origins)
        except HttpError as error:
            return await socket.send_denial_response(error.response())
        await socket.accept(_PROTOCOL if _PROTOCOL in protocols else None)
        with suppress(WebSocketDisconnect):
            await _Connection(socket, answering).serve()

    async def plain(_request: Request) -> Response:
        raise HttpError(
            426,
            "/v1/realtime is a WebSocket: connect to it as one; if you do, the server lacks a "
            "package: pip install websockets",
        )

    return [
        *(WebSocketRoute(prefix + "/realtime", realtime) for prefix in PREFIXES),
        *routes_of("/realtime", answering.gate.guarded(plain), "GET"),
    ]


def _check_origin(socket: WebSocket, allowed: tuple[str, ...]) -> None:
    """Browsers let any page connect: those of others may not."""
    origin = socket.headers.get("origin")
    own = origin is None or urlsplit(origin).netloc == socket.headers.get("host")
    if not (own or origin in allowed or "*" in allowed):
        raise HttpError(403, f"pages of {origin} may not use this server: start it with --cors")


class _Connection:
    def __init__(self, socket: WebSocket, answering: Answering) -> None:
        self._socket = socket
        self._answering = answering
        self._model: str | None = socket.query_params.get("model")
        self._rate = RATE
        self._sound: _Sound | None = None

    async def serve(self) -> None:
        """Takes events until the client is gone."""
        await self.send("session.created", session=self._described())
        try:
            while True:
                try:
                    await self._take_next()
                except HttpError as error:
                    await self._fail(error)
                except BusyError as error:
                    await self._fail(HttpError(429, str(error), code="busy"))
                except (RunnerError, TimeoutError) as error:
                    await self._fail(HttpError(500, str(error) or "the model did not come in time"))
        finally:
            await self._drop()

    async def send(self, type: str, **fields: Any) -> None:
        await self._socket.send_json({"type": type, "event_id": _new("event"), **fields})

    async def _take_next(self) -> None:
        try:
            async with asyncio.timeout(_SILENT_S if self._sound else None):
                text = await self._socket.receive_text()
        except KeyError:
            raise HttpError(400, "an event is text, not bytes") from None
        except TimeoutError:
            raise HttpError(
                408, f"no sound came for {_SILENT_S:g} seconds: commit it when it ends"
            ) from None
        event = read_event(text)
        if event.type == "session.update":
            await self._update(event.session)
        elif event.type == "input_audio_buffer.append":
            await self._append(event)
        elif event.type == "input_audio_buffer.commit":
            await self._commit()
        else:
            await self._drop()
            await self.send("input_audio_buffer.cleared")

    async def _update(self, session: Session) -> None:
        if self._sound is not None:
            raise HttpError(400, "a sound arrives: commit or clear it before session.update")
        given = session.audio.input
        if given.format is not None:
            self._rate = given.format.rate
        if given.transcription is not None and given.transcription.model is not None:
            self._answering.shelf.find(given.transcription.model)
            self._model = given.transcription.model
        await self.send("session.updated", session=self._described())

    async def _append(self, event: Event) -> None:
        samples = event.samples()
        most = self._answering.settings.max_sound_s
        for piece in pieces(samples, self._rate):
            if self._sound is None:
                self._sound = await self._open()
            await self._sound.feed(piece)
            if self._sound.seconds > most:
                raise HttpError(413, f"the sound has more than {most:g} seconds: commit it before")

    async def _commit(self) -> None:
        sound = self._sound
        if sound is None:
            raise HttpError(400, "there is no sound to commit: append some first")
        await sound.finish()
        await self._drop()

    async def _open(self) -> "_Sound":
        place = self._answering.shelf.find(self._model)
        hearing, name = place.served.hearing, place.served.name
        if hearing is None or not hearing["streams"]:
            what = "does not hear" if hearing is None else "reads whole sounds"
            raise HttpError(
                400, f"{name!r} {what}: choose a model that reads sound that arrives", "model"
            )
        self._socket.state.model = place.served
        async with AsyncExitStack() as opened:
            deadline = asyncio.get_running_loop().time() + self._answering.settings.timeout
            using = self._answering.shelf.using(place, deadline)
            model = await opened.enter_async_context(using)
            answer = await model.submit(None, {"rate": self._rate})
            opened.callback(answer.close)
            return _Sound(self, model, answer, self._rate, opened.pop_all())

    async def _fail(self, error: HttpError) -> None:
        """Tells an error; what the client asked for wrongly ends no sound, all others do."""
        if error.status != 400:
            await self._drop()
        await self.send("error", **error.body())

    async def _drop(self) -> None:
        sound, self._sound = self._sound, None
        if sound is not None:
            await sound.close()

    def _described(self) -> dict[str, Any]:
        heard = {
            "format": {"type": "audio/pcm", "rate": self._rate},
            "transcription": {"model": self._model},
            "turn_detection": None,
            "noise_reduction": None,
        }
        kind = {"type": "transcription", "object": "realtime.transcription_session"}
        return {**kind, "audio": {"input": heard}}


class _Sound:
    """One that arrives, from its first samples to its end.

    Attributes:
        seconds: of it that came.
    """

    def __init__(
        self,
        connection: _Connection,
        model: Model,
        answer: Answer,
        rate: int,
        opened: AsyncExitStack,
    ) -> None:
        self.seconds = 0.0
        self._connection = connection
        self._model = model
        self._answer = answer
        self._rate = rate
        self._opened = opened
        self._room = asyncio.Semaphore(_MOST_AHEAD)
        self._item = _new("item")
        self._before: str | None = None
        self._completed = 0  # items
        self._telling = asyncio.create_task(self._tell())

    async def feed(self, samples: bytes) -> None:
        """Gives a piece, once there is room for it.

        Raises:
            RunnerError: the model failed.
        """
        await self._room.acquire()
        if self._telling.done():
            await self._telling
        self.seconds += len(samples) / SAMPLE / self._rate
        self._model.feed(self._answer, samples)

    async def finish(self) -> None:
        """Ends the sound; returns when its text is told."""
        before = self._completed
        self._model.feed(self._answer, b"")
        await self._telling
        if self._completed == before:  # it ends in silence
            await self._complete("", 0.0)

    async def close(self) -> None:
        self._telling.cancel()
        await asyncio.gather(self._telling, return_exceptions=True)
        await self._opened.aclose()

    async def _tell(self) -> None:
        agreed = AgreedText()
        try:
            async for part in self._answer:
                if isinstance(part, Took):
                    self._room.release()
                    continue
                assert isinstance(part, Heard) and part.segment is not None
                text = part.segment.text.removeprefix(" ")
                more = agreed.end(text) if part.is_final else agreed.more(text)
                if more:
                    await self._send(_TEXT + ".delta", content_index=0, delta=more)
                if part.is_final:
                    await self._complete(text, part.segment.end - part.segment.start)
        finally:
            self._room.release()

    async def _complete(self, text: str, seconds: float) -> None:
        await self._send("input_audio_buffer.committed", previous_item_id=self._before)
        usage = {"type": "duration", "seconds": round(seconds, 2)}
        await self._send(_TEXT + ".completed", content_index=0, transcript=text, usage=usage)
        self._before, self._item = self._item, _new("item")
        self._completed += 1

    async def _send(self, type: str, **fields: Any) -> None:
        await self._connection.send(type, item_id=self._item, **fields)


def _new(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(8)}"
