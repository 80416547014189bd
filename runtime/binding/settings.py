"""What an answer's options are beside its seed: thimble_settings of the library."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from runtime.binding.c_arguments import text_of
from runtime.binding.library import ERROR_SIZE, WantedCallback, library
from runtime.errors import NO_MEMORY, RunnerError


@dataclass(frozen=True)
class Settings:
    """The values of thimble_settings.

    Attributes:
        numbers: of thimble_settings_number(), by name.
        bias: what is added to the logits of tokens.
        stop: texts at which the answer ends, in UTF-8.
        logprobs: the number of most likely tokens; None: the tokens are not asked for.
    """

    numbers: dict[str, float]
    bias: dict[int, float]
    stop: list[bytes]
    logprobs: int | None

    @contextmanager
    def open(
        self,
        on_token: Callable[..., None],
        on_special: Callable[..., int] | None = None,
        wanted: Callable[..., int] | None = None,
        prediction: bytes = b"",
    ) -> Iterator[int]:
        """Provides the library's settings.

        Args:
            on_token: for the tokens, if they are asked for.
            on_special: for the special tokens; None: they are text, or left out.
            wanted: is asked while a constraint is compiled: 0 ends that.
            prediction: what the answer may repeat, in UTF-8.

        Raises:
            RunnerError: the library refuses a value.
        """
        lib = library()
        settings = lib.thimble_settings_new()
        if not settings:
            raise RunnerError(NO_MEMORY)
        try:
            for name, number in self.numbers.items():
                _set(lib.thimble_settings_number, settings, name.encode(), number)
            for token, value in self.bias.items():
                _set(lib.thimble_settings_bias, settings, token, value)
            for text in self.stop:
                _set(lib.thimble_settings_stop, settings, text, len(text))
            if self.logprobs is not None:
                _set(lib.thimble_settings_tokens, settings, self.logprobs, on_token, None)
            if on_special is not None:
                lib.thimble_settings_special(settings, on_special, None)
            if prediction:
                _set(lib.thimble_settings_prediction, settings, prediction, len(prediction))
            if wanted is not None:
                lib.thimble_settings_wanted(settings, wanted, None)
            yield settings
        finally:
            lib.thimble_settings_free(settings)


def asking(wanted: Callable[[], bool]) -> Callable[..., int]:
    """Returns the library's callback that asks whether what it compiles is still wanted. It must
    live as long as settings with it are used."""
    return WantedCallback(lambda _context: wanted())


def _set(function: Callable[..., int], *arguments: object) -> None:
    error = ctypes.create_string_buffer(ERROR_SIZE)
    if function(*arguments, error, ERROR_SIZE):
        raise RunnerError(text_of(error))
