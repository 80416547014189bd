"""Several requests at once with one loaded model: a Python class over the C++ engine."""

import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Self, Unpack

from runtime.answer_options import AnswerOptions, read_options
from runtime.binding.c_arguments import check_whole, text_of, token_ids, utf8_of
from runtime.binding.library import ERROR_SIZE, EngineOptions, Request, library
from runtime.binding.settings import asking
from runtime.errors import RunnerError, shown
from runtime.generation import Generation
from runtime.runner import Runner

MAX_SEQUENCES = 32
MOST_WAIT_S = 1.0
_NO_MEMORY = "there is not enough memory: free some, and open the model again"


class Engine:
    """Runs several requests at once, in shared calls of a model; each gets the text that it would
    get alone.

    While it is open, its Runner and the forks of it cannot be used. One that is dropped without
    close() is closed when its requests have ended.

    Attributes:
        runner: whose tokenizer and template may be used while the engine is open.

    Args:
        runner: of a model exported with `--delegate cpu`. With its draft "ngram" each request
            guesses for itself, the fewer tokens the more requests share a call; the texts stay the
            same.
        sequences: requests that run at once, 1 to 32; each has a key/value cache.
        queue_size: requests that may wait for one of these.
        prompt_rows: the most tokens of prompts in a call of the model. Beside answers there are
            fewer: as many as take about as long as the answers.

    Raises:
        RunnerError: an argument is out of range, the model was not exported with `--delegate cpu`,
            the runner's draft is a model, or the runner is closed or busy.
    """

    def __init__(
        self, runner: Runner, sequences: int = 8, queue_size: int = 64, prompt_rows: int = 64
    ) -> None:
        check_whole("sequences", sequences, 1, MAX_SEQUENCES)
        check_whole("queue_size", queue_size, 1, 2**31 - 1)
        check_whole("prompt_rows", prompt_rows, 1, 2**31 - 1)
        self.runner = runner
        self._work = _Work(runner, EngineOptions(sequences, queue_size, prompt_rows))
        weakref.finalize(self, self._work.close_when_done)

    def submit(
        self,
        prompt: str | Sequence[int],
        max_new_tokens: int | None = None,
        *,
        adapter: str | None = None,
        on_event: Callable[[], None] | None = None,
        special_apart: bool = False,
        wanted: Callable[[str], bool] | None = None,
        still_wanted: Callable[[], bool] = lambda: True,
        prediction: str = "",
        **options: Unpack[AnswerOptions],
    ) -> Generation:
        """Accepts a request: a prompt, or its tokens with BOS.

        Args:
            max_new_tokens, options: those of Runner.generate().
            adapter: one of the runner's `adapters`; "": none; None: the one that the runner has.
                Requests with different adapters take turns.
            on_event: is called in the engine's thread whenever there is new text, and when the
                request has ended; Generation.poll() then gives the text. It must return soon.
            special_apart: special tokens are pieces of their own, of the type Special, in place of
                `special_text`; no text of `stop` has one in it.
            wanted: is called in the engine's thread with each piece; False ends the answer there,
                as a text of `stop` does. It must return soon.
            still_wanted: is called now and then while the constraint is compiled, in this thread;
                False ends that with an error.
            prediction: a text that the answer may repeat, such as a file that it changes: guesses
                from it are verified, as with the draft "ngram". The same text, often sooner.

        Raises:
            RunnerError: an option is unknown or out of range, there is no such adapter, the prompt
                does not fit the context, the queue is full, or the engine is closed.
        """
        answer = read_options(max_new_tokens, options, self.runner.sampling)
        for name, function in (("on_event", on_event), ("wanted", wanted)):
            if function is not None and not callable(function):
                raise RunnerError(f"{name} is {shown(function)}, but must be a function")
        constraint = answer.constraint
        ids = token_ids(self._tokens(prompt))
        generation = Generation(self._work.cancel, self._work.forget, on_event, wanted)
        request = Request(
            ids.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)),
            len(ids),
            answer.options,
            constraint.kind,
            constraint.text,
            len(constraint.text),
        )
        on_special = generation._on_special if special_apart else None
        compiles = asking(lambda: self._work.is_open and still_wanted())
        predicted = utf8_of("prediction", prediction)
        with answer.settings.open(
            generation._on_token, on_special, compiles, predicted
        ) as settings:
            self._work.submit(generation, request, settings, adapter)
        return generation

    def close(self) -> None:
        """Ends every request as interrupted, and frees the engine; the runner can be used again.

        Raises:
            RunnerError: it is called by an `on_event`, in the engine's own thread.
        """
        self._work.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tokens(self, prompt: str | Sequence[int]) -> Sequence[int]:
        self._work.check_open()
        return self.runner.encode_prompt(prompt) if isinstance(prompt, str) else prompt


class _Work:
    """What the thread of an Engine does. It does not know the Engine, which can so be dropped."""

    def __init__(self, runner: Runner, options: EngineOptions) -> None:
        self._runner = runner
        self._hold = runner._holding()
        runner_handle = self._hold.__enter__()
        error = ctypes.create_string_buffer(ERROR_SIZE)
        self._handle: int | None = library().thimble_engine_open(
            runner_handle, ctypes.byref(options), error, ERROR_SIZE
        )
        if not self._handle:
            self._hold.__exit__(None, None, None)
            raise RunnerError(text_of(error))
        runner._on_close = self.close
        self._changed = threading.Condition()
        self._running: dict[int, Generation] = {}
        self._submitting = 0  # of these, those that the library compiles, perhaps for long
        self._closing = self._closing_when_done = False
        self._thread = threading.Thread(target=self._run, name="thimble-engine", daemon=True)
        self._thread.start()

    def submit(
        self, generation: Generation, request: Request, settings: int | None, adapter: str | None
    ) -> None:
        error = ctypes.create_string_buffer(ERROR_SIZE)
        name = None if adapter is None else utf8_of("the adapter", adapter)
        with self._changed:
            handle = self.check_open()
            self._running[id(generation)] = generation  # before a step can end it
            self._submitting += 1
        try:  # without the lock: a constraint is compiled while others are answered
            generation._id = library().thimble_engine_submit_with(
                handle,
                ctypes.byref(request),
                settings,
                name,
                generation._on_text,
                generation._on_end,
                None,
                error,
                ERROR_SIZE,
            )
        finally:
            with self._changed:
                self._submitting -= 1
                if not generation._id:
                    del self._running[id(generation)]
                self._changed.notify_all()
        if not generation._id:
            raise RunnerError(text_of(error))

    @property
    def is_open(self) -> bool:
        return not self._closing

    def cancel(self, request: int) -> None:
        with self._changed:
            if self._handle is not None:
                library().thimble_engine_cancel(self._handle, request)

    def forget(self, generation: Generation) -> None:
        with self._changed:
            self._running.pop(id(generation), None)

    def check_open(self) -> int:
        with self._changed:
            if self._handle is None or self._closing:
                raise RunnerError("this Engine is closed: open another")
            return self._handle

    def close(self) -> None:
        if not self._thread.is_alive():  # it was closed, or this process was forked
            return
        if threading.current_thread() is self._thread:
            if self._handle is None:
                return
            raise RunnerError("an on_event cannot close its Engine: close it in another thread")
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def close_when_done(self) -> None:
        """Closes once every request has ended; waits a moment for it if there is none.

        It may be called whenever objects are freed, in any thread: with locks held that the thread
        waits for, so that it must not wait for long.
        """
        if not self._thread.is_alive():
            return
        with self._changed:
            self._closing_when_done = True
            self._changed.notify()
            idle = not self._running
        if idle and threading.current_thread() is not self._thread:
            self._thread.join(MOST_WAIT_S)

    def _has_work(self, left: int) -> bool:
        return left > 0 or len(self._running) > self._submitting

    def _fail(self) -> None:
        """Ends every request where memory ran out; what the engine holds cannot be relied on.

        Raises:
            MemoryError: always. The engine is not freed.
        """
        with self._changed:
            self._handle = None
        self._end_untold()
        raise MemoryError(_NO_MEMORY)

    def _end_untold(self) -> None:
        """Ends the requests whose end the library had no memory to tell."""
        with self._changed:
            running = list(self._running.values())
        for generation in running:
            generation._end(_NO_MEMORY, {"stop_reason": "interrupted"})

    def _run(self) -> None:
        """Steps while there is work, waits for it otherwise; frees the engine in the end."""
        left = 0
        while True:
            with self._changed:
                while not (self._closing or self._has_work(left) or self._closing_when_done):
                    self._changed.wait()
                if self._closing or not self._has_work(left):
                    break
            left = library().thimble_engine_step(self._handle)
            if left < 0:
                self._fail()
        with self._changed:
            while self._submitting:
                self._changed.wait()
            handle, self._handle = self._handle, None
        library().thimble_engine_free(handle)
        self._end_untold()
        self._runner._on_close = None
        self._hold.__exit__(None, None, None)
        del self._runner, self._hold
