"""A conversation with a model; a Runner stores its messages together with the cache."""

import ctypes
from collections.abc import Generator
from typing import Unpack

from runtime.answer_options import AnswerOptions, read_options
from runtime.binding.c_arguments import utf8_of
from runtime.binding.library import library
from runtime.errors import RunnerError
from runtime.runner import Runner

_OF_PROGRAM = "run it with -p instead of --chat"  # what the library says without a template


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
        data = utf8_of("the system prompt", system)
        try:
            runner._call(library().thimble_chat_start, data, len(data))
        except RunnerError as error:
            raise RunnerError(str(error).replace(_OF_PROGRAM, "use generate()")) from None

    def say(
        self,
        message: str,
        max_new_tokens: int | None = None,
        **options: Unpack[AnswerOptions],
    ) -> Generator[str, None, None]:
        """Sends a message and yields the answer as it is generated; options and errors are those
        of Runner.generate(). The conversation keeps the text that is yielded.

        Closing the iterator ends the answer; the part generated so far stays in the conversation. A
        message that does not fit the context together with the system prompt is an error, and is
        not added to the conversation.
        """
        answer = read_options(max_new_tokens, options)
        self._dropped_turns.value = 0
        dropped_turns = ctypes.byref(self._dropped_turns)
        say = library().thimble_chat_say
        return self._runner._stream(say, message, answer, dropped_turns)

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
