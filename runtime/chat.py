"""A conversation with a model, over the messages that a Runner keeps beside its cache."""

import ctypes
from collections.abc import Generator

from runtime.arguments import sampling_options
from runtime.library import library
from runtime.runner import Runner


class Chat:
    """A conversation with a model that has a chat template.

    A turn is a message and its answer. Where the context has no room for more, the oldest turns are
    dropped, never the system prompt. The messages belong to the Runner: save(), restore() and
    fork() take them along with the cache, generate() leaves them alone, and a second Chat of the
    same Runner continues the same conversation.

    Args:
        runner: answers; it may be used in between, at the price of what its cache then forgets.
        system: what the model is told first; empty: what it was told already, if anything.

    Attributes:
        dropped_turns: those that the last message pushed out of the conversation.

    Raises:
        RunnerError: the model has no chat template, or one that takes no system prompt; the system
            prompt leaves no room for a message; the runner is closed or busy.
    """

    def __init__(self, runner: Runner, system: str = "") -> None:
        self._runner = runner
        self._dropped_turns = ctypes.c_int64()
        data = system.encode("utf-8", "replace")
        runner._call(library().thimble_chat_start, data, len(data))

    def say(
        self,
        message: str,
        max_new_tokens: int | None = None,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        seed: int | None = None,
    ) -> Generator[str, None, None]:
        """Asks, and yields the answer as it comes; options and errors as those of generate().

        Closing the iterator ends the answer, which stays in the conversation as far as it came. A
        message that the context has no room for beside the system prompt is an error, and does not
        become part of the conversation.
        """
        options = sampling_options(max_new_tokens, temperature, top_k, top_p, min_p, seed)
        self._dropped_turns.value = 0
        dropped_turns = ctypes.byref(self._dropped_turns)
        return self._runner._stream(library().thimble_chat_say, message, options, dropped_turns)

    def reset(self) -> None:
        """Forgets every turn; the system prompt stays.

        Raises:
            RunnerError: the runner is closed or busy.
        """
        self._runner._call(library().thimble_chat_reset)

    @property
    def turns(self) -> int:
        """The turns of the conversation, without those that were dropped.

        Raises:
            RunnerError: the runner is closed or busy.
        """
        with self._runner._holding() as handle:
            return library().thimble_chat_turns(handle)

    @property
    def dropped_turns(self) -> int:
        return self._dropped_turns.value
