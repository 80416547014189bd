"""A loaded model that hears: a Python class over the C++ one."""

import ctypes
import math
import mmap
import os
import queue
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from runtime.binding.c_arguments import check, check_whole, encoded, text_of, utf8_of
from runtime.binding.file_handle import FileHandle
from runtime.binding.library import (
    ERROR_SIZE,
    SegmentCallback,
    Sound,
    SoundSegment,
    SoundWord,
    TranscribeOptions,
    library,
)
from runtime.errors import RunnerError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TASKS = ("transcribe", "translate")
# The types of arrays by numpy's names, as thimble_hear.h numbers them.
_TYPES = {"uint8": 0, "int16": 1, "int32": 3, "float32": 4, "float64": 5}
# How those of files are stored, and what stands for 0 and for 1; three bytes are read by hand.
_FORMS = {
    **{0: ("u1", 128, 2**7), 1: ("i2", 0, 2**15), 2: ("u1", 0, 2**31), 3: ("i4", 0, 2**31)},
    **{4: ("f4", 0, 1), 5: ("f8", 0, 1)},
}
_THREE_BYTES = 2
_MAX_CHANNELS, _MAX_RATE = 64, 1_000_000
_TIMESTAMPS: dict[object, int] = {False: 0, True: 1, "segment": 1, "word": 2}
_CODE_SIZE = 32  # bytes of a language's code, at most


@dataclass(frozen=True)
class Word:
    """A word, and when it was spoken.

    Attributes:
        start, end: seconds of the sound.
        text: with the space that it begins with, and the punctuation around it.
    """

    start: float
    end: float
    text: str


@dataclass(frozen=True)
class Segment:
    """A part of a sound's text: a window's or, with timestamps, what is said between two times.

    Attributes:
        start, end: seconds of the sound.
        window: where the window began that it is of.
        text: with the space that it begins with.
        tokens: with those of times.
        temperature: at which its window's text was written.
        avg_logprob: of that text's tokens.
        compression_ratio: of it; high if it repeats itself.
        no_speech_prob: the probability that the window is silence.
        words: if they were asked for.
    """

    start: float
    end: float
    window: float
    text: str
    tokens: tuple[int, ...]
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float
    words: tuple[Word, ...] = ()


@dataclass(frozen=True)
class Transcription:
    """What was said in a sound.

    Attributes:
        language: its code, such as "de"; "": the model knows one, which its file does not name.
        duration: seconds of the sound.
    """

    text: str
    segments: tuple[Segment, ...]
    language: str
    duration: float


class Transcriber(FileHandle):
    """A `.pte` of a model that hears, which `python -m exporter` wrote, loaded and ready.

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

    _KIND, _NOUN, _AGAIN = "transcriber", "a Transcriber", "load the model again"

    _thread: int | None = None  # whose call is at work
    _interrupted = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        threads: int | None = None,
        require_signature: str | os.PathLike[str] | None = None,
    ) -> None:
        handle = self._load(path, threads, require_signature)
        self.languages: tuple[str, ...] = tuple(
            library().thimble_transcriber_language_at(handle, index).decode()
            for index in range(library().thimble_transcriber_languages(handle))
        )

    def transcribe(
        self,
        sound: "str | os.PathLike[str] | bytes | NDArray[Any]",
        language: str | None = None,
        task: str = "transcribe",
        timestamps: bool | Literal["segment", "word"] = False,
        prompt: str = "",
        temperature: float = 0.0,
        fallback: bool = True,
        seed: int = 0,
        rate: int = 16000,
        max_seconds: float | None = None,
        on_segment: Callable[[Segment], object] | None = None,
    ) -> Transcription:
        """Writes a sound's text. Memory does not grow with the sound's length.

        Args:
            sound: a file, WAV or, where the build has dr_libs, FLAC or MP3; its bytes; or samples
                (frames,) or (frames, channels): floats of -1 to 1, or integers that span that by
                their type's range.
            language: its code, such as "de"; None: the model tells.
            task: "transcribe", or "translate" into English.
            timestamps: segments are what is said between two times, not windows; "word": and their
                words have times too.
            prompt: text that the sound follows, such as names in it.
            temperature: 0 to 1; 0: the likeliest tokens, and higher temperatures where these fail.
            fallback: whether text that repeats itself or is unlikely is written again.
            seed: of what is sampled.
            rate: samples per second of an array.
            max_seconds: a longer sound is refused before it is decoded.
            on_segment: called with each segment as soon as it is written; what it raises ends the
                work, as Ctrl-C does.

        Raises:
            RunnerError: the sound cannot be read, or the model does not know what is asked for; or
                on_segment calls this.
        """
        if task not in _TASKS:
            raise RunnerError(f"task is {task!r}, but must be 'transcribe' or 'translate'")
        if timestamps not in _TIMESTAMPS:
            raise RunnerError(f"timestamps is {timestamps!r}, but must be 'segment' or 'word'")
        options = TranscribeOptions(
            None if language is None else utf8_of("language", language),
            utf8_of("prompt", prompt),
            int(task == "translate"),
            _TIMESTAMPS[timestamps],
            int(not fallback),
            check("temperature", temperature, 0.0, 1.0),
            check_whole("seed", seed, 0, 2**64 - 1),
        )
        most = math.inf if max_seconds is None else check("max_seconds", max_seconds, 1, math.inf)
        self._require_other_thread()
        with self._busy, _opened(sound, rate, most) as found:
            self._thread = threading.get_ident()
            try:
                segments, language = self._hear(found, options, on_segment)
            finally:
                self._thread = None
            duration = found.frames / found.rate
        text = "".join(segment.text for segment in segments).removeprefix(" ")
        return Transcription(text, tuple(segments), language, duration)

    def _hear(
        self,
        sound: Sound,
        options: TranscribeOptions,
        on_segment: Callable[[Segment], object] | None,
    ) -> tuple[list[Segment], str]:
        """Calls the library in another thread, since Ctrl-C would not end a call of this one."""
        handle = self._open()
        pieces: queue.SimpleQueue[Segment | None] = queue.SimpleQueue()
        begun, stop = threading.Event(), threading.Event()
        code = ctypes.create_string_buffer(_CODE_SIZE)
        message = ctypes.create_string_buffer(ERROR_SIZE)
        failed: list[int] = []

        def take(pointer: Any, _context: Any) -> int:
            pieces.put(_segment(pointer.contents))
            return int(threading.main_thread().is_alive() and not stop.is_set())

        def work() -> None:
            begun.wait()
            if not stop.is_set():  # Ctrl-C may come while this thread is started
                result = library().thimble_transcriber_run(
                    *(handle, ctypes.byref(sound), ctypes.byref(options)),
                    *(SegmentCallback(take), None, code, _CODE_SIZE, message, ERROR_SIZE),
                )
                failed.append(result)
            pieces.put(None)

        segments: list[Segment] = []
        raised: list[BaseException] = []
        worker = threading.Thread(target=work, name="thimble-transcribe")
        while True:
            try:
                if not begun.is_set():
                    worker.start()
                    begun.set()
                while (segment := pieces.get()) is not None:
                    segments.append(segment)
                    if on_segment is not None and not raised:
                        on_segment(segment)
                pieces.put(None)
                worker.join()
                break
            except BaseException as error:  # Ctrl-C too: the worker still reads the sound
                raised.append(error)
                is_at_work = begun.is_set()
                stop.set()
                begun.set()
                if not is_at_work:
                    break
                library().thimble_transcriber_interrupt(handle, 1)
        if raised:
            library().thimble_transcriber_interrupt(handle, int(self._interrupted))
            raise raised[0]
        if failed[0]:
            raise RunnerError(text_of(message))
        return segments, text_of(code)

    def close(self) -> None:
        """Waits for other calls, and frees the file.

        Raises:
            RunnerError: on_segment calls this.
        """
        self._require_other_thread()
        super().close()

    def _require_other_thread(self) -> None:
        """A call of this thread's own call would wait for ever."""
        if self._thread == threading.get_ident():
            raise RunnerError(
                "this Transcriber is at work: on_segment may raise an error, and use it after that"
            )

    def interrupt(self, interrupt: bool = True) -> None:
        """Ends the call of another thread after its next token, and each later one until it is
        called with False."""
        self._interrupted = interrupt
        library().thimble_transcriber_interrupt(self._open(), int(interrupt))


def read_sound(
    path: "str | os.PathLike[str]", most_seconds: float = math.inf
) -> "tuple[NDArray[np.float64], int]":
    """Returns the mean of a file's channels, (frames,) of -1 to 1, and its samples per second.

    Args:
        most_seconds: what is behind them is not read.

    Raises:
        RunnerError: the file cannot be read.
    """
    import numpy as np

    with _mapped(path) as data, _read(data, os.fspath(path), math.inf) as found:
        form, zero, one = _FORMS[found.type]
        frames = int(min(found.frames, most_seconds * found.rate))
        width = 3 if found.type == _THREE_BYTES else np.dtype(form).itemsize
        stored = ctypes.string_at(found.samples, frames * found.channels * width)
        samples = np.frombuffer(stored, form)
        if found.type == _THREE_BYTES:
            bytes_of = np.zeros((len(samples) // 3, 4), "u1")
            bytes_of[:, 1:] = samples.reshape(-1, 3)
            samples = bytes_of.view("<i4")
        numbers = (samples.astype("f8") - zero) / one
        return numbers.reshape(frames, found.channels).mean(axis=1), int(found.rate)


@contextmanager
def _opened(
    sound: "str | os.PathLike[str] | bytes | NDArray[Any]", rate: int, most_seconds: float
) -> Iterator[Sound]:
    """Keeps the samples where they are until it is left."""
    if isinstance(sound, str | os.PathLike):
        with _mapped(sound) as data, _read(data, os.fspath(sound), most_seconds) as found:
            yield found
    elif isinstance(sound, bytes):
        with _read(sound, "the sound", most_seconds) as found:
            yield found
    else:
        held, found = _array(sound, rate)
        if found.frames > most_seconds * rate:
            raise RunnerError(f"the sound has more than {most_seconds:g} seconds: give it in parts")
        yield found
        del held


@contextmanager
def _mapped(path: "str | os.PathLike[str]") -> "Iterator[mmap.mmap | bytes]":
    try:
        if stat.S_ISFIFO(os.stat(encoded(path)).st_mode):  # to open it would wait for a writer
            raise RunnerError(f"{os.fspath(path)} is not a file: name one, or pass its bytes")
        with open(encoded(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    except OSError as error:
        name = os.fspath(path)
        raise RunnerError(f"cannot read {name}: {error.strerror}: name a file of sound") from None
    yield data


@contextmanager
def _read(data: "mmap.mmap | bytes", name: str, most_seconds: float) -> Iterator[Sound]:
    import numpy as np

    view = np.frombuffer(data, np.uint8) if len(data) else np.empty(0, np.uint8)
    sound = Sound()
    error = ctypes.create_string_buffer(ERROR_SIZE)
    address = ctypes.c_void_p(view.ctypes.data)
    file = library().thimble_sound_open(
        *(address, len(view), most_seconds, ctypes.byref(sound), error, ERROR_SIZE)
    )
    if not file:
        raise RunnerError(text_of(error).replace("the sound", name, 1))
    try:
        yield sound
    finally:
        library().thimble_sound_close(file)


def _array(samples: "NDArray[Any]", rate: int) -> tuple[Any, Sound]:
    import numpy as np

    if not isinstance(samples, np.ndarray):
        raise RunnerError(
            f"the sound is a {type(samples).__name__}, but must be a path, the bytes of a file or "
            "an array"
        )
    if samples.dtype == np.float16:
        samples = samples.astype(np.float32)
    kind = _TYPES.get(samples.dtype.name)
    if kind is None:
        raise RunnerError(
            f"the sound is an array of {samples.dtype}, but must be of {', '.join(_TYPES)}"
        )
    channels = samples.shape[1] if samples.ndim == 2 else 1
    if samples.ndim not in (1, 2) or not 1 <= channels <= _MAX_CHANNELS or len(samples) == 0:
        raise RunnerError(
            f"the sound is an array of shape {samples.shape}, but must be (frames,) or (frames, "
            f"channels), with 1 to {_MAX_CHANNELS} channels"
        )
    check_whole("rate", rate, 1, _MAX_RATE)
    held = np.ascontiguousarray(samples, samples.dtype.newbyteorder("="))
    return held, Sound(held.ctypes.data, len(held), kind, channels, rate)


def _segment(one: SoundSegment) -> Segment:
    scores = one.temperature, one.avg_logprob, one.compression_ratio, one.no_speech_prob
    words = tuple(Word(word.start, word.end, _text(word)) for word in one.words[: one.word_count])
    tokens = tuple(one.tokens[: one.count])
    return Segment(one.start, one.end, one.window, _text(one), tokens, *scores, words)


def _text(one: SoundSegment | SoundWord) -> str:
    return ctypes.string_at(one.text, one.size).decode("utf-8", "replace")
