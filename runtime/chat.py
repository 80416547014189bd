"""A conversation with a model; a Runner stores its messages together with the cache."""

import ctypes
import weakref
from collections.abc import Callable, Generator
from typing import Any, Unpack

from runtime.answer_options import AnswerOptions, read_options
from runtime.binding.c_arguments import text_of, utf8_of
from runtime.binding.library import ERROR_SIZE, library
from runtime.errors import RunnerError
from runtime.pictures import Part, PictureMessage
from runtime.runner import Runner

_OF_PROGRAM = "run it with -p instead of --chat"  # what the library says without a template


class Chat:
    """A conversation with a model that has a chat template.

    A turn is a message and its answer. When the context is full, the oldest turns are dropped,
    never the system prompt. Each Chat of a Runner is a conversation of its own; generate() changes
    none. Its Runner's save() and fork() include the messages of the Chat that was used last, and
    restore() replaces them.

    The answers are content alone: reasoning, which special tokens or `<think>` set off, is neither
    yielded nor kept, unless `special_text` is asked for.

    Args:
        runner: the model; other use in between may remove the conversation from its cache. The Chat
            begins with the messages that it was last restored or forked with, else without any.
        system: the system prompt; empty: that of these messages, if any.

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
        error = ctypes.create_string_buffer(ERROR_SIZE)
        with runner._holding() as handle:
            while runner._chats_gone:
                library().thimble_chat_end(handle, runner._chats_gone.pop())
            begin = library().thimble_chat_begin
            self._number: int = begin(handle, data, len(data), error, ERROR_SIZE)
        if self._number < 0:
            raise RunnerError(text_of(error).replace(_OF_PROGRAM, "use generate()"))
        weakref.finalize(self, runner._chats_gone.append, self._number)

    def say(
        self,
        message: str | list[Part] | tuple[Part, ...],
        max_new_tokens: int | None = None,
        **options: Unpack[AnswerOptions],
    ) -> Generator[str, None, None]:
        """Sends a message and yields the answer as it is generated; options and errors are those
        of Runner.generate(). The conversation keeps the text that is yielded.

        Closing the iterator ends the answer; the part generated so far stays in the conversation. A
        message that does not fit the context together with the system prompt is an error, and is
        not added to the conversation.

        Args:
            message: a text; or, of a model that sees, a list of pictures and then texts, as
                Runner.generate() takes them.
        """
        answer = read_options(max_new_tokens, options, self._runner.sampling)
        self._dropped_turns.value = 0
        dropped_turns = ctypes.byref(self._dropped_turns)
        say: Callable[..., int] = library().thimble_chat_say
        if isinstance(message, list | tuple):
            with_pictures = PictureMessage(message)
            say, message = with_pictures.say, with_pictures.text
        say = self._chosen(say)
        return self._runner._stream(say, message, answer, dropped_turns)

    def add(self, message: str, answer: str) -> None:
        """Adds a turn that was had before, such as one that a program kept. Nothing is computed
        before the next message.

        Raises:
            RunnerError: the runner is closed or busy.
        """
        texts = [utf8_of(name, text) for name, text in (("message", message), ("answer", answer))]
        arguments = [argument for data in texts for argument in (data, len(data))]
        self._runner._call(self._chosen(library().thimble_chat_add), *arguments)

    def reset(self) -> None:
        """Removes every turn; the system prompt stays.

        Raises:
            RunnerError: the runner is closed or busy.
        """
        self._runner._call(self._chosen(library().thimble_chat_reset))

    @property
    def turns(self) -> int:
        """The number of turns of the conversation, without dropped ones.

        Raises:
            RunnerError: the runner is closed or busy.
        """
        with self._runner._holding() as handle:
            turns: int = library().thimble_chat_turns_of(handle, self._number)
        return turns

    def _chosen(self, function: Callable[..., int]) -> Callable[..., int]:
        """A function of the library for this conversation."""
        choose, number = library().thimble_chat_choose, self._number

        def call(handle: int, *arguments: Any) -> int:
            *_, error, size = arguments
            failed: int = choose(handle, number, error, size)
            return failed or function(handle, *arguments)

        return call

    @property
    def dropped_turns(self) -> int:
        return self._dropped_turns.value
