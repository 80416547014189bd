"""Has the model answer, and replies whole or as a stream, while the client is there."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Protocol, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from runtime.chat_format.conversation import Prompt
from runtime.chat_format.reader import Reader
from runtime.errors import RunnerError
from runtime.server.chat import chat_options, chat_prompts, chat_readers, need_template
from runtime.server.errors import HttpError
from runtime.server.gate import Gate
from runtime.server.image_hosts import ImageHosts
from runtime.server.images import images_of, with_images
from runtime.server.interface import OPENAI, Interface
from runtime.server.model import Answer, Model, RequestError
from runtime.server.model_process import More, Task
from runtime.server.requests import ChatRequest
from runtime.server.served import ServedModel
from runtime.server.settings import ServerSettings
from runtime.server.shelf import Shelf
from runtime.server.streams import Progress, answers_to, progress_of

_Events = AsyncIterator[tuple[int, Any]]
_Found = TypeVar("_Found")
_SILENT_S = 15.0


class Replies(Protocol):
    """The answers of a request as the objects of an interface."""

    async def whole(self, answers: Sequence[Answer], events: _Events) -> dict[str, Any]: ...

    def chunks(
        self, answers: Sequence[Answer], events: _Events
    ) -> AsyncIterator[dict[str, Any]]: ...

    def failed(self, error: HttpError) -> dict[str, Any]:
        """Returns what ends a stream that fails."""


class Answering:
    """What all interfaces that ask models have in common."""

    def __init__(self, shelf: Shelf, settings: ServerSettings, gate: Gate) -> None:
        self.shelf = shelf
        self.settings = settings
        self.gate = gate
        self.image_hosts = ImageHosts(settings.image_hosts)

    @asynccontextmanager
    async def turn(
        self,
        request: Request,
        name: str | None,
        task: Task = "text",
        keep: float | None = None,
    ) -> AsyncIterator["Turn"]:
        """Has a request's model loaded until its answer has ended.

        Args:
            name: of the model, as the client gives it.
            task: what it must do.
            keep: the seconds that it stays after that; None: as before.

        Raises:
            HttpError: there is no such model, or it is of the other kind.
            RunnerError: it cannot be loaded now.
            ClientDisconnect: the client hung up.
        """
        place = self.shelf.find(name)
        request.state.model = served = place.served
        if served.options.task != task:
            every = [one.served for one in self.shelf.places]
            others = [one.name for one in every if one.options.task == task]
            raise HttpError(400, _wrong_kind(served, task, others), "model")
        loop = asyncio.get_running_loop()
        began = loop.time()
        deadline = began + self.settings.timeout
        async with AsyncExitStack() as opened:
            using = opened.enter_async_context(self.shelf.using(place, deadline, keep))
            model = await _unless_gone(request, using)
            yield Turn(self, request, served, model, deadline, opened, loop.time() - began)


class Turn:
    """A request whose model is loaded.

    Attributes:
        load_s: seconds for which it waited for that.
    """

    def __init__(
        self,
        answering: Answering,
        request: Request,
        served: ServedModel,
        model: Model,
        deadline: float,
        opened: AsyncExitStack,
        load_s: float,
    ) -> None:
        self.served = served
        self.load_s = load_s
        self.model = model
        self._answering = answering
        self._request = request
        self._deadline = deadline
        self._opened = opened

    async def converse(
        self,
        chat: ChatRequest,
        replies_of: Callable[[list[Prompt], list[Reader]], Replies],
        interface: Interface = OPENAI,
    ) -> Response:
        """Answers a conversation.

        Args:
            replies_of: makes the replies from the answers' prompts and readers.

        Raises:
            HttpError: the model has no chat template.
            RunnerError: the conversation is not possible.
        """
        images = await self.images(chat, interface)
        template = need_template(self.model.template)
        prompts = await asyncio.to_thread(chat_prompts, chat, template)
        readers = chat_readers(chat, prompts)
        settings = self._answering.settings
        options = chat_options(chat, prompts, readers, settings.max_tokens, settings.relax)
        pieces = [with_images(prompt, images) for prompt in prompts]
        replies = replies_of(prompts, readers)
        try:
            return await self.answer(chat.stream, pieces, options, replies, interface)
        except RequestError as error:
            field = chat.constraint.field if chat.constraint else None
            explained = prompts[0].explained(str(error), field or interface.answer_field)
            raise RequestError(explained) from None

    async def images(self, chat: ChatRequest, interface: Interface) -> list[bytes]:
        """Returns the files of a conversation's pictures.

        Raises:
            HttpError: the model does not see, or one cannot be read.
        """
        settings = self._answering.settings
        if not self.served.sees:
            for message in chat.messages:
                parts = message.content if isinstance(message.content, list) else []
                if any(part.image_url is not None for part in parts):
                    reason = f"{self.served.name!r} does not see: leave the pictures out"
                    raise HttpError(400, reason, interface.messages_field)
        hosts = self._answering.image_hosts
        return await images_of(chat, hosts, settings.max_images, interface is OPENAI)

    async def answer(
        self,
        stream: bool | None,
        prompts: list[Any],
        options: list[dict[str, Any]],
        replies: Replies,
        interface: Interface = OPENAI,
        scored: bool = False,
    ) -> Response:
        """Answers prompts."""
        deadline, opened = self._deadline, self._opened

        async def open_answers() -> tuple[list[Answer], Progress]:
            async with asyncio.timeout_at(deadline):
                work = answers_to(self.model, prompts, options, scored)
                answers = await opened.enter_async_context(work)
            return answers, await opened.enter_async_context(progress_of(answers, deadline))

        if stream:
            answers, progress = await open_answers()

            async def lines() -> AsyncIterator[str]:
                try:
                    async for chunk in replies.chunks(answers, progress.events()):
                        yield interface.line(chunk)
                    if interface.end:
                        yield interface.end
                except (RunnerError, TimeoutError) as error:
                    failure = self._answering.gate.failure(error, self._request)
                    yield interface.line(replies.failed(failure))

            kept = _kept_alive(lines(), interface.waiting)
            return _Stream(kept, interface.media_type, opened.pop_all())

        async def whole() -> Response:
            answers, progress = await open_answers()
            return JSONResponse(await replies.whole(answers, progress.events()))

        return await _unless_gone(self._request, whole())

    async def transcribe(
        self,
        sound: bytes,
        options: dict[str, Any],
        whole: Callable[[list[More]], Response],
        chunks: Callable[[AsyncIterator[More]], AsyncIterator[dict[str, Any]]] | None,
    ) -> Response:
        """Writes a sound's text.

        Args:
            whole: makes the answer of all that was heard.
            chunks: makes what is streamed instead; None: nothing is.
        """
        deadline, opened = self._deadline, self._opened

        async def heard() -> AsyncIterator[More]:
            async with asyncio.timeout_at(deadline):
                work = answers_to(self.model, [sound], [options])
                (answer,) = await opened.enter_async_context(work)
            return _until(deadline, answer)

        if chunks is None:

            async def complete() -> Response:
                return whole([more async for more in await heard()])

            return await _unless_gone(self._request, complete())
        objects = chunks(await heard())

        async def lines() -> AsyncIterator[str]:
            try:
                async for one in objects:
                    yield OPENAI.line(one)
            except (RunnerError, TimeoutError) as error:
                failure = self._answering.gate.failure(error, self._request)
                yield OPENAI.line(failure.body())

        kept = _kept_alive(lines(), OPENAI.waiting)
        return _Stream(kept, OPENAI.media_type, opened.pop_all())


async def _until(deadline: float, answer: Answer) -> AsyncIterator[More]:
    """What is generated until the deadline.

    Raises:
        TimeoutError: it is not complete then.
    """
    events = aiter(answer)
    while True:
        async with asyncio.timeout_at(deadline):
            more = await anext(events, None)
        if more is None:
            return
        yield more


# Of each task: what has it, its path, and what others lack.
_KINDS: dict[Task, tuple[str, str, str]] = {
    "text": ("a model that answers", "/v1/chat/completions", "does not answer"),
    "embedding": ("a model of embeddings", "/v1/embeddings", "has no embeddings"),
    "transcription": ("a model that hears", "/v1/audio/transcriptions", "does not hear"),
}


def _wrong_kind(served: ServedModel, task: Task, others: Sequence[str]) -> str:
    what, path, _ = _KINDS[served.options.task]
    lacks = _KINDS[task][2]
    if task == "text":
        return f"{served.name!r} is {what}, which {lacks}: {path}"
    have = ", ".join(map(repr, others)) or "no model here"
    verb = "has" if task == "embedding" else "does"
    return f"{served.name!r} is {what}, and {lacks}: {have} {verb}"


class _Stream(StreamingResponse):
    """A stream of events, which ends its answers when it ends, also before its first event."""

    def __init__(self, lines: AsyncIterator[str], media_type: str, opened: AsyncExitStack) -> None:
        super().__init__(lines, media_type=media_type, headers={"Cache-Control": "no-store"})
        self._opened = opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._opened:
            await super().__call__(scope, receive, send)


async def _kept_alive(lines: AsyncIterator[str], waiting: str) -> AsyncIterator[str]:
    """Adds `waiting` where nothing comes for long: proxies may close a silent connection."""
    while True:
        line = asyncio.ensure_future(anext(lines, None))
        try:
            while waiting and not (await asyncio.wait({line}, timeout=_SILENT_S))[0]:
                yield waiting
            text = await line
        finally:
            line.cancel()
        if text is None:
            return
        yield text


async def _unless_gone(request: Request, work: Coroutine[Any, Any, _Found]) -> _Found:
    """Does the work, unless the client hangs up first: then the work is cancelled.

    Raises:
        ClientDisconnect: it has hung up.
    """

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
            raise ClientDisconnect
        return await task
    finally:
        task.cancel()
        watch.cancel()
