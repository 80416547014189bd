"""A loaded model that turns texts into rows of numbers: a Python class over the C++ one."""

import ctypes
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Self

from runtime.binding.c_arguments import MAX_THREADS, check_whole, encoded, text_of, utf8_of
from runtime.binding.library import ERROR_SIZE, EmbeddingCounts, LoadOptions, Text, library
from runtime.errors import RunnerError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Embeddings:
    """Some texts' rows.

    Attributes:
        rows: float32 (texts, width).
        tokens: that were read, with those that the model puts around texts.
        cut: how many texts were longer than the model reads, and were cut at their end.
    """

    rows: "NDArray[np.float32]"
    tokens: int
    cut: int


class Embedder:
    """A `.pte` of embeddings that `python -m exporter` wrote, loaded and ready.

    Any thread may use it; calls wait for each other.

    Args:
        path: the file.
        threads: 1 to 256; None: automatic.

    Raises:
        RunnerError: the file cannot be used, or the C++ is not built.
    """

    _handle: int | None = None

    def __init__(self, path: str | os.PathLike[str], threads: int | None = None) -> None:
        self._busy = threading.Lock()
        self._process = os.getpid()
        if threads is not None:
            check_whole("threads", threads, 1, MAX_THREADS)
        error = ctypes.create_string_buffer(ERROR_SIZE)
        options = LoadOptions(threads or 0, 0, 0)
        load = library().thimble_embedder_load
        self._handle = load(encoded(path), ctypes.byref(options), error, ERROR_SIZE)
        if not self._handle:
            raise RunnerError(text_of(error))
        self.width: int = library().thimble_embedder_width(self._handle)
        self.max_seq_len: int = library().thimble_embedder_max_seq_len(self._handle)
        self.prompts: tuple[str, ...] = tuple(
            library().thimble_embedder_prompt_at(self._handle, index).decode()
            for index in range(library().thimble_embedder_prompts(self._handle))
        )

    def encode(self, texts: Sequence[str], prompt_name: str | None = None) -> "NDArray[np.float32]":
        """Returns a row for each text, float32 (texts, width); see `embed`."""
        return self.embed(texts, prompt_name).rows

    def embed(self, texts: Sequence[str], prompt_name: str | None = None) -> Embeddings:
        """Embeds texts, several in a call of the model, without padding: a row does not depend on
        the others.

        Args:
            prompt_name: one of `prompts`, whose text goes before each text; None: the model's
                default; "": none.

        Raises:
            RunnerError: there is no such prompt, or the texts are not a list of strings.
        """
        import numpy as np

        if isinstance(texts, str):
            raise RunnerError(f"texts is the string {texts!r}, but must be a list of strings")
        parts = [utf8_of(f"text {number}", text) for number, text in enumerate(texts, start=1)]
        prompt = None if prompt_name is None else utf8_of("prompt_name", prompt_name)
        array = (Text * len(parts))(*(Text(part, len(part)) for part in parts))
        rows = np.empty((len(parts), self.width), np.float32)
        counts = EmbeddingCounts()
        error = ctypes.create_string_buffer(ERROR_SIZE)
        with self._busy:
            failed = library().thimble_embedder_run(
                *(self._open(), array, len(parts), prompt),
                rows.ctypes.data_as(ctypes.POINTER(ctypes.c_float)),
                *(ctypes.byref(counts), error, ERROR_SIZE),
            )
        if failed:
            raise RunnerError(text_of(error))
        return Embeddings(rows, counts.tokens, counts.cut)

    def close(self) -> None:
        """Waits for other calls, and frees the model."""
        if os.getpid() != self._process:
            self._handle = None  # its threads belong to the other process
            return
        with self._busy:
            if self._handle is not None:
                library().thimble_embedder_free(self._handle)
            self._handle = None

    def _open(self) -> int:
        """The handle."""
        if self._handle is None:
            raise RunnerError("this Embedder is closed: load the model again")
        if os.getpid() != self._process:
            raise RunnerError(
                "this Embedder was loaded before the process was forked: load the model again"
            )
        return self._handle

    def __reduce__(self) -> NoReturn:
        raise TypeError("an Embedder cannot be copied or pickled: load the model again")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._handle is not None:
            self.close()
