"""Files of subtitles, as the library writes them."""

import ctypes
from collections.abc import Sequence
from typing import Any, Literal

from runtime.binding.c_arguments import text_of
from runtime.binding.library import ERROR_SIZE, SoundSegment, TextCallback, library
from runtime.errors import RunnerError
from runtime.transcriber import Segment

_KINDS = {"srt": 0, "vtt": 1}  # as thimble_hear.h numbers them


def subtitles(kind: Literal["srt", "vtt"], segments: Sequence[Segment]) -> str:
    """Returns a file with the start, end and text of each segment.

    Raises:
        RunnerError: the library is not built.
    """
    texts = [ctypes.create_string_buffer(segment.text.encode()) for segment in segments]
    given = (SoundSegment * len(segments))()
    for one, segment, text in zip(given, segments, texts, strict=True):
        one.start, one.end = segment.start, segment.end
        one.text, one.size = ctypes.cast(text, type(one.text)), len(text) - 1
    written: list[bytes] = []

    def take(text: Any, size: int, _context: Any) -> int:
        written.append(ctypes.string_at(text, size))
        return 1

    error = ctypes.create_string_buffer(ERROR_SIZE)
    if library().thimble_subtitles(
        *(_KINDS[kind], given, len(segments), TextCallback(take), None, error, ERROR_SIZE)
    ):
        raise RunnerError(text_of(error))
    return b"".join(written).decode()
