"""The only answer of a request, as it is read."""

from collections.abc import AsyncIterator
from typing import Any

from runtime.chat_format.calls import Event
from runtime.chat_format.reader import Reader
from runtime.chat_format.stop_reader import StopReader


class OneAnswer:
    """Reads what the interfaces whose requests have one answer pass on."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def read(self, progress: AsyncIterator[tuple[int, Any]]) -> AsyncIterator[Event]:
        async for _, more in progress:
            if more is None:
                for event in self._reader.finish():
                    yield event
                continue
            for piece in more.pieces:
                for event in self._reader.push(piece):
                    yield event

    @property
    def stop(self) -> str | None:
        """The stop text that ended it, if one did."""
        return self._reader.found if isinstance(self._reader, StopReader) else None
