"""A loaded model that hears: a Python class over the C++ one."""

import ctypes
import math
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from runtime.binding.c_arguments import check, check_whole, text_of, utf8_of
from runtime.binding.file_handle import FileHandle
from runtime.binding.library import (
    ERROR_SIZE,
    PartCallback,
    SegmentCallback,
    Sound,
    SoundSegment,
    SoundWord,
    TranscribeOptions,
    library,
)
from runtime.errors import RunnerError, shown
from runtime.sound import array_sound, opened

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TASKS = ("transcribe", "translate")
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


@dataclass(frozen=True)
class Part:
    """The text so far of the last seconds of a sound that arrives, which the next one replaces; or
    their final text.

    Attributes:
        segment: it may have no text.
    """

    segment: Segment
    is_final: bool


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
    _stream: int | None = None  # the handle of the sound that arrives
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
            raise RunnerError(f"task is {shown(task)}, but must be 'transcribe' or 'translate'")
        if timestamps not in _TIMESTAMPS:
            raise RunnerError(f"timestamps is {shown(timestamps)}, but must be 'segment' or 'word'")
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
        with self._busy, opened(sound, rate, most) as found:
            self._thread = threading.get_ident()
            try:
                segments, language = self._hear(found, options, on_segment)
            finally:
                self._thread = None
            duration = found.frames / found.rate
        text = "".join(segment.text for segment in segments).removeprefix(" ")
        return Transcription(text, tuple(segments), language, duration)

    def stream(
        self,
        pieces: "Iterable[NDArray[Any]]",
        step: float = 1.0,
        temperature: float = 0.0,
        fallback: bool = True,
        seed: int = 0,
        rate: int = 16000,
    ) -> Iterator[Part]:
        """Writes the text of a sound while it arrives, of a model that reads it so. Meanwhile, it
        can do no other work.

        Args:
            pieces: samples (frames,) or (frames, channels), as of transcribe(); all of one type.
            step: seconds of sound from one text to the next, 0.02 to 60.
            temperature, fallback, seed: as of transcribe(); of final texts.
            rate: samples per second.

        Raises:
            RunnerError: the model reads whole sounds alone, does not know what is asked for, or is
                at work; or a piece is not as the first one.
        """
        options = TranscribeOptions(
            *(None, b"", 0, 0, int(not fallback)),
            check("temperature", temperature, 0.0, 1.0),
            check_whole("seed", seed, 0, 2**64 - 1),
        )
        parts: list[Part] = []

        def take(pointer: Any, is_final: int, _context: Any) -> int:
            parts.append(Part(_segment(pointer.contents), bool(is_final)))
            return int(threading.main_thread().is_alive())

        callback, message = PartCallback(take), ctypes.create_string_buffer(ERROR_SIZE)
        form: tuple[int, int] | None = None
        try:
            for piece in pieces:
                held, sound = array_sound(piece, rate)
                if form is None:
                    form = sound.type, sound.channels
                    self._begin(sound, options, step, callback, message)
                if form != (sound.type, sound.channels):
                    raise RunnerError("a piece has another type or channels than the first one")
                self._call("feed", message, sound.samples, sound.frames)
                del held
                yield from parts
                parts.clear()
            if form is not None:
                self._call("finish", message)
                yield from parts
        finally:
            if form is not None:
                self._end()

    def _begin(
        self, form: Sound, options: TranscribeOptions, step: float, callback: Any, message: Any
    ) -> None:
        with self._busy:
            handle = library().thimble_sound_stream_open(
                *(self._open(), ctypes.byref(form), ctypes.byref(options), step, callback, None),
                *(message, ERROR_SIZE),
            )
            if not handle:
                raise RunnerError(text_of(message))
            self._stream = handle

    def _call(self, name: str, message: Any, *given: Any) -> None:
        with self._busy:
            if self._stream is None:
                self._open()
                raise RunnerError("the sound that arrives was ended: begin another")
            call = getattr(library(), f"thimble_sound_stream_{name}")
            if call(self._stream, *given, message, ERROR_SIZE):
                raise RunnerError(text_of(message))

    def _end(self) -> None:
        """Ends the sound that arrives, if there is one."""
        with self._busy:
            if self._stream is not None and os.getpid() == self._process:
                library().thimble_sound_stream_close(self._stream)
            self._stream = None

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
        if self._handle is not None:
            self._end()
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


def _segment(one: SoundSegment) -> Segment:
    scores = one.temperature, one.avg_logprob, one.compression_ratio, one.no_speech_prob
    words = tuple(Word(word.start, word.end, _text(word)) for word in one.words[: one.word_count])
    tokens = tuple(one.tokens[: one.count])
    return Segment(one.start, one.end, one.window, _text(one), tokens, *scores, words)


def _text(one: SoundSegment | SoundWord) -> str:
    return ctypes.string_at(one.text, one.size).decode("utf-8", "replace")
