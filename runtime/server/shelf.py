"""The shelf of models: which of a server's models are in memory, and who uses them.

A model is loaded for the first request that names it. The least recently used ones go where there
is no room for another; never one that answers: it then takes no further requests until the other
has its room, which so comes.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from runtime.server.errors import HttpError
from runtime.server.model import BusyError, Model, ModelError
from runtime.server.served import ServedModel

_LOG = logging.getLogger("uvicorn.error")
_FIRST_LOAD_S = 5.0  # what one may take, before there was any


class Place:
    """What the shelf knows of a model.

    Attributes:
        model: at work; None: it is not loaded.
        restarts, loads, unloads: how often there was one.
        keep: seconds after its last request in which it stays; None: until its room is needed.
    """

    def __init__(self, served: ServedModel) -> None:
        self.served = served
        self.model: Model | None = None
        self.loads = self.unloads = 0
        self.keep: float | None = None
        self.used = 0  # when, by the shelf's count
        self.users: set[object] = set()  # requests that have the model
        self.waiting: set[object] = set()  # and those that wait for it
        self.holds_room = False
        self.leaving = False  # takes no further requests
        self.load: asyncio.Task[None] | None = None
        self.load_s = _FIRST_LOAD_S
        self.expiry: asyncio.TimerHandle | None = None
        self._opened: asyncio.Future[None] | None = None
        self._restarts_before = 0

    @property
    def restarts(self) -> int:
        return self._restarts_before + (0 if self.model is None else self.model.restarts)

    @property
    def expires_in(self) -> float | None:
        """The seconds after which it is unloaded; None: it is at work, or stays."""
        if self.expiry is None or self.expiry.cancelled():
            return None
        return max(0.0, self.expiry.when() - asyncio.get_running_loop().time())

    @property
    def running(self) -> int:
        """Requests at work or waiting."""
        return len(self.waiting) + (0 if self.model is None else self.model.running)

    def opened(self) -> "asyncio.Future[None]":
        """Returns what is set when those who wait may use the model, or get an error."""
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_future()
            self._opened.add_done_callback(lambda done: done.exception())  # perhaps nobody's
        return self._opened

    def admit(self) -> None:
        """Lets those who wait use the model."""
        self.users |= self.waiting
        self.waiting.clear()
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.set_result(None)

    def refuse(self, error: Exception) -> None:
        """Gives those who wait an error."""
        self.waiting.clear()
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.set_exception(error)

    def taken_out(self) -> Model:
        """Returns the model, which is no longer in its place."""
        model = self.model
        assert model is not None
        self._restarts_before += model.restarts
        self.model, self.keep = None, None
        self.unloads += 1
        return model


class Shelf:
    """
    Attributes:
        places: of all models, in the order in which they were given.
        on_end: called with a model's name and the statistics of each of its answers.

    Args:
        most_bytes: that the loaded models may need; each of them fits alone.
    """

    def __init__(self, models: Sequence[ServedModel], most_bytes: float = math.inf) -> None:
        self.places = [Place(served) for served in models]
        self.on_end: Callable[[str, dict[str, Any]], None] = lambda _name, _stats: None
        self._most_bytes = most_bytes
        self._count = count(1)
        self._turn = asyncio.Lock()  # of those who make room, in the order in which they came
        self._changed = asyncio.Event()
        self._freed = 0  # bytes, for the one whose turn it is
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped: str | None = None

    @property
    def names(self) -> list[str]:
        return [place.served.name for place in self.places]

    @property
    def ready(self) -> bool:
        """Whether no model is being started again after its process ended."""
        return all(place.model is None or place.model.ready for place in self.places)

    def find(self, name: str | None) -> Place:
        """
        Args:
            name: as a client gives it; None or empty: it gives none.

        Raises:
            HttpError: there is no such model, or there are several and none is named.
        """
        had = ", ".join(map(repr, self.names))
        if not name:
            if len(self.places) > 1:
                raise HttpError(400, f"model is missing: this server has {had}", "model")
            return self.places[0]
        for place in self.places:
            # Ollama's clients name a version, by default the latest.
            if place.served.name in (name, name.removesuffix(":latest")):
                return place
        raise HttpError(
            404, f"there is no model {name!r}: this server has {had}", "model", "model_not_found"
        )

    @asynccontextmanager
    async def using(
        self, place: Place, deadline: float, keep: float | None = None
    ) -> AsyncIterator[Model]:
        """Has a model loaded, which stays so until it is left.

        Args:
            deadline: when it must be loaded, in the loop's time.
            keep: the seconds that it stays after that, unless its room is needed; None: as before.

        Raises:
            BusyError: too many wait for it, or it has no room before the deadline.
            ModelError: it cannot be loaded.
        """
        user = object()
        if place.expiry is not None:
            place.expiry.cancel()
        try:
            if place.model is not None and not place.leaving:
                place.users.add(user)
            else:
                await self._wait(place, user, deadline)
            assert place.model is not None
            place.used = next(self._count)
            place.keep = place.keep if keep is None else keep
            yield place.model
        finally:
            place.waiting.discard(user)
            place.users.discard(user)
            place.used = next(self._count)
            self._left(place)

    def dismiss(self, place: Place) -> None:
        """Unloads a model as soon as nobody uses it."""
        if place.model is not None:
            place.keep = 0.0
            self._left(place)

    async def load(self, place: Place) -> None:
        """Loads a model before anyone asks for it.

        Raises:
            ModelError: it cannot be loaded.
        """
        place.holds_room = True
        await self._start(place)

    def fail_all(self, reason: str) -> None:
        """Ends every answer with an error; no other can begin."""
        self._stopped = reason
        for place in self.places:
            place.refuse(ModelError(reason))
            if place.model is not None:
                place.model.fail_all(reason)

    async def stop(self) -> None:
        """Ends every model, and with it its answers."""
        self._stopped = self._stopped or "the server is stopping"
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        loaded = [place.model for place in self.places if place.model is not None]
        await asyncio.gather(*(model.stop() for model in loaded))

    async def _wait(self, place: Place, user: object, deadline: float) -> None:
        if self._stopped is not None:
            raise ModelError(self._stopped)
        options, name = place.served.options, place.served.name
        if len(place.waiting) >= options.sequences + options.waiting:
            raise BusyError(
                f"{len(place.waiting)} requests wait until {name!r} is loaded: try again later",
                max(1, math.ceil(place.load_s)),
            )
        place.waiting.add(user)
        opened = place.opened()
        self._load_if_wanted(place)
        try:
            async with asyncio.timeout_at(deadline):
                await asyncio.shield(opened)
        except TimeoutError:
            why = "other models answer, and have the memory that it needs"
            why = "it is still being loaded" if place.holds_room else why
            raise BusyError(f"{name!r} did not come in time: {why}; try again") from None

    def _left(self, place: Place) -> None:
        """What follows when a request has ended."""
        self._changed.set()
        if place.users or place.waiting or place.model is None or place.keep is None:
            return
        if place.keep == 0:
            place.leaving = True
            self._begin(self._unload(place))
        elif math.isfinite(place.keep):
            loop = asyncio.get_running_loop()
            if place.expiry is not None:
                place.expiry.cancel()
            place.expiry = loop.call_later(place.keep, self.dismiss, place)

    def _load_if_wanted(self, place: Place) -> None:
        if place.waiting and not place.holds_room and place.load is None:
            place.load = self._begin(self._load(place))

    def _begin(self, work: Any) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _load(self, place: Place) -> None:
        try:
            if await self._make_room(place):
                await self._start(place)
                place.admit()
        except ModelError as error:
            name = place.served.name
            _LOG.error("the model %s cannot be loaded: %s", name, error)
            place.refuse(ModelError(f"the model {name!r} cannot be loaded: the log tells why"))
        finally:
            place.load = None
            self._changed.set()
        self._load_if_wanted(place)

    async def _start(self, place: Place) -> None:
        """Loads a model whose room is there, or gives the room back."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        model = Model(place.served.options)
        name = place.served.name
        model.on_end = lambda stats: self.on_end(name, stats)
        try:
            await model.start()
        except BaseException:
            await model.stop()
            place.holds_room = False
            raise
        place.load_s = loop.time() - began
        place.model, place.leaving = model, False
        place.used = next(self._count)
        place.loads += 1

    def _fits(self, place: Place, kept: int = 0) -> bool:
        held = sum(other.served.memory for other in self.places if other.holds_room)
        return held + kept + place.served.memory <= self._most_bytes

    async def _make_room(self, place: Place) -> bool:
        """Takes the room of a model; returns whether it is still wanted."""
        if self._fits(place, self._freed):
            place.holds_room = True
            return True
        async with self._turn:
            try:
                while place.waiting and not self._fits(place):
                    await self._free_some()
                place.holds_room = bool(place.waiting)
            finally:
                self._freed = 0
                for other in self.places:
                    if other.leaving and other.model is not None:
                        other.leaving = False
                        other.admit()
        return place.holds_room

    async def _free_some(self) -> None:
        """Unloads the model that was used least recently, or waits until one can be."""
        loaded = [place for place in self.places if place.model is not None]
        idle = [place for place in loaded if not place.users]
        if idle:
            place = min(idle, key=lambda one: one.used)
            await self._unload(place)
            self._freed += place.served.memory
            return
        if loaded and not any(place.leaving for place in loaded):
            min(loaded, key=lambda one: one.used).leaving = True
        self._changed.clear()
        await self._changed.wait()

    async def _unload(self, place: Place) -> None:
        if place.model is None or place.users:
            return
        model = place.taken_out()
        await model.stop()
        place.holds_room = place.leaving = False
        self._changed.set()
        self._load_if_wanted(place)
