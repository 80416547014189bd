"""A loaded model that streams text: a Python class over the C++ runner."""

import ctypes
import json
import os
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from runtime.answer_options import Answer, AnswerOptions, read_options
from runtime.binding.answer_stream import stream
from runtime.binding.c_arguments import (
    MAX_COUNT,
    MAX_THREADS,
    check_whole,
    encoded,
    piece_array,
    read_tokens,
    text_of,
    token_ids,
    utf8_of,
)
from runtime.binding.library import ERROR_SIZE, LoadOptions, library
from runtime.binding.logprobs import TokenLogprob, collector
from runtime.binding.runner_handle import RunnerHandle
from runtime.binding.settings import asking
from runtime.errors import RunnerError, shown
from runtime.pictures import Part, PicturePrompt, Pictures, SeenTokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KV_CACHES = ("default", "float16", "float32", "int8", "int4", "int8-int4")
_CLOSED = b"this Runner is closed, and was before its answer had ended: the text is not all of it"


def _was_interrupted(handle: int) -> bool:
    return json.loads(library().thimble_stats(handle))["stop_reason"] == "interrupted"


class Runner(RunnerHandle):
    """A `.pte` that `python -m exporter` wrote, loaded and ready.

    Its key/value cache stays from one answer to the next: a prefix that a prompt shares with the
    tokens before is not computed again.

    Args:
        path: the file.
        threads: 1 to 256; None: automatic. Files of delegates other than `cpu` share ExecuTorch's
            thread pool in the process: the first file sets the number for all. When it changes that
            number, no program opened by ExecuTorch's own bindings may be open.
        kv_cache: one of KV_CACHES; "default": the type set in the file.
        huge_pages: copies the weights into huge pages, if the system has them.
        adapter: one of `adapters`; None: none.
        draft: guesses of the next tokens, which the model verifies, several in one call: the same
            text, sooner where guesses are right. "ngram" looks for repetitions in the text; a path
            is a smaller model of the same tokenizer; None: none.
        require_signature: an Ed25519 public key, with which every byte of the file must have been
            signed, in FILE.sig: a file of PEM or of its 32 bytes, or the text of the PEM; None: no
            signature is needed. A file of a draft must be signed with it too.

    Raises:
        RunnerError: the file cannot be used, or has no such adapter, or the C++ is not built, or
            the draft does not have the model's tokens;
            kv_cache, huge_pages or draft with a file that was not exported with `--delegate cpu`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        threads: int | None = None,
        kv_cache: str = "default",
        huge_pages: bool = False,
        adapter: str | None = None,
        draft: str | os.PathLike[str] | None = None,
        require_signature: str | os.PathLike[str] | None = None,
    ) -> None:
        self._logprobs: list[TokenLogprob] = []
        self._start()
        if threads is not None:
            check_whole("threads", threads, 1, MAX_THREADS)
        if kv_cache not in KV_CACHES:
            raise RunnerError(
                f"kv_cache is {shown(kv_cache)}, but must be one of {', '.join(KV_CACHES)}"
            )
        if not isinstance(huge_pages, bool):
            raise RunnerError(f"huge_pages is {shown(huge_pages)}, but must be True or False")
        options = LoadOptions(threads or 0, KV_CACHES.index(kv_cache), int(huge_pages))
        error = ctypes.create_string_buffer(ERROR_SIZE)
        key = None if require_signature is None else encoded(require_signature)
        load = library().thimble_load_signed
        handle = load(encoded(path), key, ctypes.byref(options), error, ERROR_SIZE)
        if not handle:
            raise RunnerError(text_of(error))
        self._take(handle)
        if adapter is not None:
            self.adapter = adapter
        if draft is not None:
            self._call(library().thimble_use_draft, encoded(draft))

    def generate(
        self,
        prompt: str | list[Part] | tuple[Part, ...],
        max_new_tokens: int | None = None,
        **options: Unpack[AnswerOptions],
    ) -> Generator[str, None, None]:
        """Continues the prompt; yields text as it is generated, in complete characters.

        Closing the iterator ends the generation.

        Args:
            prompt: a text; or, of a model that sees, a question as a list of texts and pictures in
                order, around which the model's template stands. A picture is {"image": ...}, of a
                path, the bytes of a PNG, JPEG, WebP or PPM file, or pixels: an array of uint8
                (height, width, 3), or (height, width) of gray.
            max_new_tokens: the most tokens to generate; None: until the model ends its text or the
                context is full.
            options: those of AnswerOptions, by name.

        Raises:
            RunnerError: an option is unknown or out of range; while iterating: the constraint is
                not valid or not supported, a token of logit_bias is not in the vocabulary, the
                prompt does not fit the context, the model fails, or the runner is busy or closed,
                also if it is closed before the answer has ended.
        """
        answer = read_options(max_new_tokens, options, self.sampling)
        if isinstance(prompt, list | tuple):
            with self._control:
                form = library().thimble_picture_form(self._open())
            asked = PicturePrompt(prompt, form)
            return self._stream(asked.generate, asked.text, answer)
        return self._stream(library().thimble_generate, prompt, answer)

    def _stream(
        self, function: Callable[..., int], text: str, answer: Answer, *results: object
    ) -> Generator[str, None, None]:
        """Answers `text` with a function of the library, which may have additional results."""
        prompt = utf8_of("the prompt", text)
        wanted = answer.constraint
        logprobs: list[TokenLogprob] = []
        on_token = collector(logprobs)
        compiles = asking(lambda: not self._closing)
        self._acquire()
        try:
            self._logprobs = logprobs
            self._using.acquire()
            try:
                handle = self._open()
                library().thimble_interrupt(handle, int(self._closing))
                with answer.settings.open(on_token, wanted=compiles) as settings:
                    library().thimble_use_settings(handle, settings)
            except BaseException:
                self._using.release()
                raise

            def call(on_text: Any, error: "ctypes.Array[ctypes.c_char]") -> int:
                _ = compiles  # the library asks it
                failed = library().thimble_constrain(
                    handle, wanted.kind, wanted.text, len(wanted.text), error, ERROR_SIZE
                ) or function(
                    *(handle, prompt, len(prompt), ctypes.byref(answer.options), on_text, None),
                    *(*results, error, ERROR_SIZE),
                )
                if not failed and self._closing and _was_interrupted(handle):
                    error.value, failed = _CLOSED, 1
                return failed

            yield from stream(call, lambda: not self._closing, self._interrupt, self._using.release)
        finally:
            self._busy.release()

    @property
    def stats(self) -> dict[str, Any]:
        """The last answer's statistics, as written by --json; stop_reason is "" if there is no
        answer."""
        with self._control:
            return json.loads(library().thimble_stats(self._open()))

    @property
    def logprobs(self) -> list[TokenLogprob]:
        """The last answer's tokens, if it was asked for with `logprobs`; the list grows with the
        answer, and has the tokens of a piece of text before that is yielded."""
        return self._logprobs

    @property
    def constraint_notes(self) -> list[str]:
        """What is to be known about the last answer's constraint, such as that oneOf is treated as
        anyOf."""
        with self._control:
            return library().thimble_constraint_notes(self._open()).decode("utf-8").splitlines()

    def encode(self, text: str) -> list[int]:
        """Returns the tokens of a text, without BOS; special tokens in it are plain text."""
        data = utf8_of("the text", text)
        encode, size = library().thimble_encode, len(data)
        with self._control:  # a leading space may be a token
            handle = self._open()
            return read_tokens(lambda ids: encode(handle, data, size, ids, len(ids)), size, more=1)

    def encode_prompt(self, prompt: str) -> list[int]:
        """Returns the tokens of a prompt as generate() does, with BOS if the tokenizer adds one.

        Like encode(), it may be called at any time, also while an Engine is open.
        """
        data = utf8_of("the prompt", prompt)
        encode, size = library().thimble_encode_prompt, len(data)
        with self._control:
            handle = self._open()

            def fill(ids: "ctypes.Array[ctypes.c_int32]") -> int:
                error = ctypes.create_string_buffer(ERROR_SIZE)
                count: int = encode(handle, data, size, ids, len(ids), error, ERROR_SIZE)
                if count < 0:
                    raise RunnerError(text_of(error))
                return count

            return read_tokens(fill, size, more=2)  # a leading space and BOS

    def token_text(self, token: int) -> bytes:
        """Returns the bytes that a token adds to a text, or the text of a special token.

        There are none of a token that is not in the vocabulary.
        """
        size = ctypes.c_size_t()
        with self._control:
            text = library().thimble_token_text(self._open(), token, ctypes.byref(size))
            return ctypes.string_at(text, size.value) if size.value else b""

    @property
    def sees(self) -> bool:
        """Whether the model takes pictures."""
        with self._control:
            return bool(library().thimble_picture_form(self._open()))

    def encode_pieces(
        self, pieces: Sequence[tuple[str, bool]], images: Sequence[object] = ()
    ) -> list[int]:
        """Returns the tokens of pieces that are read as one text, without BOS.

        Like encode(), it may be called at any time, also while an Engine is open.

        Args:
            pieces: texts, each with whether it may contain special tokens; in the others they are
                plain text.
            images: a picture for each of the template's places in them, as in generate(). An
                Engine takes the tokens as they are, as long as they exist: below 0 are rows of
                pictures.

        Raises:
            RunnerError: a piece is not such a pair, a picture cannot be read, there are not as many
                places, the model does not see, or the runner is closed.
        """
        array, pictures = piece_array(pieces), Pictures(images)
        size = sum(piece.size for piece in array)
        with self._control:
            handle = self._open()
            if pictures:
                return SeenTokens(handle, pictures, array)

            def fill(ids: "ctypes.Array[ctypes.c_int32]") -> int:
                error = ctypes.create_string_buffer(ERROR_SIZE)
                encode = library().thimble_encode_pieces
                count: int = encode(handle, array, len(array), ids, len(ids), error, ERROR_SIZE)
                if count < 0:
                    raise RunnerError(text_of(error))
                return count

            return read_tokens(fill, size, more=1)

    @property
    def chat_template(self) -> dict[str, Any] | None:
        """The model's chat template: `source` (jinja2), the texts `bos_token` and `eos_token` that
        it takes (None: undefined), `special_tokens`, the texts of the tokenizer's special tokens,
        `tokens`, what the template calls by other names, such as `unk_token`, and `tool_source`,
        the template that takes its place where functions are given (None: itself).

        None if the file has none, or was exported before templates were kept in it.
        """
        with self._control:
            told = library().thimble_chat_template(self._open())
        return json.loads(told) if told else None

    def logits(
        self, tokens: Sequence[int], first: int = 0, last: int | None = None
    ) -> "NDArray[np.float32]":
        """Computes the logits after each token, as in an answer.

        `--delegate cpu` gives up to 64 rows in a call, bit for bit those of a call for each token.

        Args:
            tokens: the complete text, including BOS, whose length may choose the rotary table;
                those already in the cache are not computed again.
            first, last: of the tokens whose logits are returned, last excluded; None: to the end.

        Returns:
            float32 (last - first, vocab_size).

        Raises:
            RunnerError: a token is outside the vocabulary, the tokens do not fit the context,
                `first` or `last` is out of range, or the runner is closed or busy.
        """
        import numpy as np

        check_whole("first", first, 0, max(len(tokens) - 1, 0))
        last = len(tokens) if last is None else last
        check_whole("last", last, first, len(tokens))
        with self._holding() as handle:
            width = library().thimble_vocab_size(handle)
        ids, logits = token_ids(tokens), np.empty((last - first, width), dtype=np.float32)
        given = ids.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)), len(ids), first, last - first
        rows = logits.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        self._call(library().thimble_logit_rows, *given, rows)
        return logits

    @property
    def adapters(self) -> list[str]:
        """The names of the adapters that the file was exported with, kept apart."""
        with self._control:
            count, name = library().thimble_adapters, library().thimble_adapter_at
            return [name(self._handle, index).decode() for index in range(count(self._open()))]

    @property
    def adapter(self) -> str | None:
        """The adapter that it runs with, or None.

        Setting another empties the key/value cache; a chat continues and is computed again. It
        raises a RunnerError if the file has no such adapter, or the runner is closed or busy.
        """
        with self._control:
            return library().thimble_adapter(self._open()).decode() or None

    @adapter.setter
    def adapter(self, name: str | None) -> None:
        self._call(library().thimble_use_adapter, utf8_of("the adapter", name or ""))

    @property
    def length(self) -> int:
        """The number of tokens in the key/value cache, prompt and answer."""
        with self._control:
            return library().thimble_length(self._open())

    def truncate(self, length: int) -> None:
        """Removes every token of the cache from `length` on.

        Tokens before it are computed again where sliding windows do not reach so far back.

        Raises:
            RunnerError: the cache has fewer, or the runner is closed or busy.
        """
        check_whole("length", length, 0, MAX_COUNT)
        self._call(library().thimble_truncate, length)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the cache, and the messages of a Chat, to a file, completely or not at all.

        Raises:
            RunnerError: the file cannot be written, the model was not exported with
                `--delegate cpu`, or the runner is closed or busy.
        """
        self._call(library().thimble_save, encoded(path))

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Resumes from a file that save() wrote, on any machine.

        Raises:
            RunnerError: as save(); or the file is damaged, or belongs to another model or type of
                cache. Nothing changes then.
        """
        self._call(library().thimble_restore, encoded(path))

    def fork(self) -> "Runner":
        """Returns another Runner of the same model, which shares the weights and continues
        independently.

        Only one of a model's Runners can work at a time.

        Raises:
            RunnerError: the model was not exported with `--delegate cpu`, or the runner is closed
                or busy.
        """
        error = ctypes.create_string_buffer(ERROR_SIZE)
        with self._holding() as handle:
            forked = library().thimble_fork(handle, error, ERROR_SIZE)
        if not forked:
            raise RunnerError(text_of(error))
        runner = object.__new__(Runner)
        runner._logprobs = []
        runner._start()
        runner._take(forked)
        runner._busy = self._busy
        return runner

    def verify(self) -> None:
        """Checks every byte of the file, including the weights.

        Raises:
            RunnerError: it is damaged; the message names the part.
        """
        self._call(library().thimble_verify)
