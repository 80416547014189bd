"""A loaded model that turns texts into rows of numbers: a Python class over the C++ one."""

import ctypes
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.binding.c_arguments import text_of, utf8_of
from runtime.binding.file_handle import FileHandle
from runtime.binding.library import ERROR_SIZE, EmbeddingCounts, Text, library
from runtime.errors import RunnerError, shown

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


class Embedder(FileHandle):
    """A `.pte` of embeddings that `python -m exporter` wrote, loaded and ready.

    Any thread may use it; calls wait for each other.

    Args:
        path: the file.
        threads: 1 to 256; None: automatic.
        require_signature: an Ed25519 public key, with which every byte of the file must have been
            signed, in FILE.sig: a file of PEM or of its 32 bytes, or the text of the PEM; None: no
            signature is needed.

    Raises:
        RunnerError: the file cannot be used, or the C++ is not built.
    """

    _KIND, _NOUN, _AGAIN = "embedder", "an Embedder", "load the model again"

    def __init__(
        self,
        path: str | os.PathLike[str],
        threads: int | None = None,
        require_signature: str | os.PathLike[str] | None = None,
    ) -> None:
        handle = self._load(path, threads, require_signature)
        self.width: int = library().thimble_embedder_width(handle)
        self.max_seq_len: int = library().thimble_embedder_max_seq_len(handle)
        self.prompts: tuple[str, ...] = tuple(
            library().thimble_embedder_prompt_at(handle, index).decode()
            for index in range(library().thimble_embedder_prompts(handle))
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
            raise RunnerError(f"texts is the string {shown(texts)}, but must be a list of strings")
        if not isinstance(texts, Iterable):
            raise RunnerError(f"texts is {shown(texts)}, but must be a list of strings")
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
