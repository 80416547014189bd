"""The only answer of a request, as it is read."""

from collections.abc import AsyncIterator
from typing import Any

from runtime.binding.logprobs import TokenLogprob
from runtime.chat_format.calls import Event
from runtime.chat_format.reader import Reader
from runtime.server.scored_reader import ScoredReader


class OneAnswer:
    """Reads what the interfaces whose requests have one answer pass on."""

    def __init__(self, reader: Reader, is_scored: bool = False) -> None:
        self._reader = ScoredReader(reader, is_scored)

    async def read(self, progress: AsyncIterator[tuple[int, Any]]) -> AsyncIterator[Event]:
        async for _, more in progress:
            for event in self._reader.read(more):
                yield event

    def take_logprobs(self) -> list[TokenLogprob]:
        """Returns the entries of the tokens since the last call, where they are asked for."""
        return self._reader.take_logprobs()

    @property
    def stop(self) -> str | None:
        """The stop text that ended it, if one did."""
        return self._reader.stop
