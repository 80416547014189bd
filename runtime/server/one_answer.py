"""The only answer of a request, as it is read."""

from collections.abc import AsyncIterator
from typing import Any

from runtime.binding.logprobs import TokenLogprob
from runtime.chat_format.calls import Event
from runtime.chat_format.reader import Reader
from runtime.chat_format.stop_reader import StopReader
from runtime.server.kept_tokens import KeptTokens


class OneAnswer:
    """Reads what the interfaces whose requests have one answer pass on."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._tokens = KeptTokens(reader) if isinstance(reader, StopReader) else None
        self._entries: list[TokenLogprob] = []

    async def read(self, progress: AsyncIterator[tuple[int, Any]]) -> AsyncIterator[Event]:
        async for _, more in progress:
            if more is None:
                events = self._reader.finish()
                self._entries += self._tokens.finish() if self._tokens else []
            else:
                push = self._tokens.push if self._tokens else self._reader.push
                events = [event for piece in more.pieces for event in push(piece)]
                entries = more.logprobs
                self._entries += self._tokens.take(entries) if self._tokens else entries
            for event in events:
                yield event

    def take_logprobs(self) -> list[TokenLogprob]:
        """The entries of the tokens since the last call, where the request asks for them."""
        taken, self._entries = self._entries, []
        return taken

    @property
    def stop(self) -> str | None:
        """The stop text that ended it, if one did."""
        return self._reader.found if isinstance(self._reader, StopReader) else None
