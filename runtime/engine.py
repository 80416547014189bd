"""Several requests at once with one loaded model: a Python class over the C++ engine."""

import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Self, Unpack

from runtime.answer_options import AnswerOptions, read_options
from runtime.arguments import check_whole, text_of, token_ids
from runtime.errors import RunnerError
from runtime.generation import Generation
from runtime.library import ERROR_SIZE, EngineOptions, Request, library
from runtime.runner import Runner

MAX_SEQUENCES = 32


class Engine:
    """Runs several requests at once, in shared calls of a model; each gets the text that it would
    get alone.

    While it is open, its Runner and the forks of it cannot be used.

    Attributes:
        runner: whose tokenizer and template may be used while the engine is open.

    Args:
        runner: of a model exported with `--delegate cpu`. With its draft "ngram" each request
            guesses for itself, the fewer tokens the more requests share a call; the texts stay the
            same.
        sequences: requests that run at once, 1 to 32; each has a key/value cache.
        queue_size: requests that may wait for one of these.
        prompt_rows: tokens of prompts in a call of the model: fewer let answers wait less.

    Raises:
        RunnerError: an argument is out of range, the model was not exported with `--delegate cpu`,
            the runner's draft is a model, or the runner is closed or busy.
    """

    def __init__(
        self, runner: Runner, sequences: int = 8, queue_size: int = 64, prompt_rows: int = 64
    ) -> None:
        self._handle: int | None = None
        check_whole("sequences", sequences, 1, MAX_SEQUENCES)
        check_whole("queue_size", queue_size, 1, 2**31 - 1)
        check_whole("prompt_rows", prompt_rows, 1, 2**31 - 1)
        self.runner = runner
        self._hold = runner._holding()
        self._runner_handle = self._hold.__enter__()
        error = ctypes.create_string_buffer(ERROR_SIZE)
        options = EngineOptions(sequences, queue_size, prompt_rows)
        self._handle = library().thimble_engine_open(
            self._runner_handle, ctypes.byref(options), error, ERROR_SIZE
        )
        if not self._handle:
            self._hold.__exit__(None, None, None)
            raise RunnerError(text_of(error))
        close = weakref.WeakMethod(self.close)
        runner._on_close = lambda: (end := close()) and end()
        self._work = threading.Condition()
        self._running: dict[int, Generation] = {}
        self._closing = False
        self._worker = threading.Thread(target=self._run, name="thimble-engine", daemon=True)
        self._worker.start()

    def submit(
        self,
        prompt: str | Sequence[int],
        max_new_tokens: int | None = None,
        *,
        adapter: str | None = None,
        on_event: Callable[[], None] | None = None,
        **options: Unpack[AnswerOptions],
    ) -> Generation:
        """Accepts a request: a prompt, or its tokens with BOS.

        Args:
            max_new_tokens, options: those of Runner.generate().
            adapter: one of the runner's `adapters`; "": none; None: the one that the runner has.
                Requests with different adapters take turns.
            on_event: is called in the engine's thread whenever there is new text, and when the
                request has ended; Generation.poll() then gives the text. It must return soon.

        Raises:
            RunnerError: an option is unknown or out of range, there is no such adapter, the prompt
                does not fit the context, the queue is full, or the engine is closed.
        """
        answer = read_options(max_new_tokens, options)
        wanted = answer.constraint
        ids = token_ids(self._tokens(prompt))
        generation = Generation(self._cancel, self._forget, on_event)
        request = Request(
            ids.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)),
            len(ids),
            answer.options,
            wanted.kind,
            wanted.text,
            len(wanted.text),
        )
        error = ctypes.create_string_buffer(ERROR_SIZE)
        with self._work, answer.settings.open(generation._on_token) as settings:
            handle = self._open()
            self._running[id(generation)] = generation  # before a step can end it
            generation._id = library().thimble_engine_submit_with(
                handle,
                ctypes.byref(request),
                settings,
                None if adapter is None else adapter.encode("utf-8", "replace"),
                generation._on_text,
                generation._on_end,
                None,
                error,
                ERROR_SIZE,
            )
            if not generation._id:
                del self._running[id(generation)]
                raise RunnerError(text_of(error))
            self._work.notify()
        return generation

    def close(self) -> None:
        """Ends every request as interrupted, and frees the engine; the runner can be used again.

        Raises:
            RunnerError: it is called by an `on_event`, in the engine's own thread.
        """
        if self._handle is None:
            return
        if threading.current_thread() is self._worker:
            raise RunnerError("an on_event cannot close its Engine: close it in another thread")
        with self._work:
            self._closing = True
            self._work.notify()
        self._worker.join()
        handle, self._handle = self._handle, None
        library().thimble_engine_free(handle)
        self.runner._on_close = None
        self._hold.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def _run(self) -> None:
        """Steps while there is work; waits for it otherwise."""
        left = 0
        while True:
            with self._work:
                while not (self._closing or left or self._running):
                    self._work.wait()
                if self._closing:
                    return
            left = library().thimble_engine_step(self._handle)

    def _cancel(self, request: int) -> None:
        with self._work:
            if self._handle is not None:
                library().thimble_engine_cancel(self._handle, request)

    def _forget(self, generation: Generation) -> None:
        with self._work:
            self._running.pop(id(generation), None)

    def _tokens(self, prompt: str | Sequence[int]) -> Sequence[int]:
        with self._work:
            self._open()
        return self.runner.encode_prompt(prompt) if isinstance(prompt, str) else prompt

    def _open(self) -> int:
        if self._handle is None or self._closing:
            raise RunnerError("this Engine is closed: open another")
        return self._handle
