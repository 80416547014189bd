"""A conversation with a model; a Runner stores its messages together with the cache."""

import ctypes
from collections.abc import Generator, Sequence

from runtime.arguments import JsonSchema, constraint, sampling_options
from runtime.library import library
from runtime.runner import Runner


class Chat:
    """A conversation with a model that has a chat template.

    A turn is a message and its answer. When the context is full, the oldest turns are dropped,
    never the system prompt. The messages belong to the Runner: save(), restore() and fork() include
    them, generate() does not change them, and a second Chat of the same Runner continues the same
    conversation.

    Args:
        runner: the model; other use in between may remove the conversation from its cache.
        system: the system prompt; empty: the previous one, if any.

    Attributes:
        dropped_turns: the number of turns that the last message dropped.

    Raises:
        RunnerError: the model has no chat template, or its template does not support a system
            prompt; the system prompt leaves no room for a message; the runner is closed or busy.
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
        *,
        json_schema: JsonSchema | None = None,
        regex: str | None = None,
        choice: Sequence[str] | None = None,
        grammar: str | None = None,
    ) -> Generator[str, None, None]:
        """Sends a message and yields the answer as it is generated; see generate() for options and
        errors.

        Closing the iterator ends the answer; the part generated so far stays in the conversation. A
        message that does not fit the context together with the system prompt is an error, and is
        not added to the conversation.
        """
        options = sampling_options(max_new_tokens, temperature, top_k, top_p, min_p, seed)
        wanted = constraint(json_schema, regex, choice, grammar)
        self._dropped_turns.value = 0
        dropped_turns = ctypes.byref(self._dropped_turns)
        say = library().thimble_chat_say
        return self._runner._stream(say, message, options, wanted, dropped_turns)

    def reset(self) -> None:
        """Removes every turn; the system prompt stays.

        Raises:
            RunnerError: the runner is closed or busy.
        """
        self._runner._call(library().thimble_chat_reset)

    @property
    def turns(self) -> int:
        """The number of turns of the conversation, without dropped ones.

        Raises:
            RunnerError: the runner is closed or busy.
        """
        with self._runner._holding() as handle:
            return library().thimble_chat_turns(handle)

    @property
    def dropped_turns(self) -> int:
        return self._dropped_turns.value
