"""Sound as the library takes it: files, their bytes, and arrays of samples."""

import ctypes
import math
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from runtime.binding.c_arguments import check_whole, encoded, text_of
from runtime.binding.library import ERROR_SIZE, Sound, library
from runtime.errors import RunnerError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The types of arrays by numpy's names, as thimble_hear.h numbers them.
_TYPES = {"uint8": 0, "int16": 1, "int32": 3, "float32": 4, "float64": 5}
# How those of files are stored, and what stands for 0 and for 1; three bytes are read by hand.
_FORMS = {
    **{0: ("u1", 128, 2**7), 1: ("i2", 0, 2**15), 2: ("u1", 0, 2**31), 3: ("i4", 0, 2**31)},
    **{4: ("f4", 0, 1), 5: ("f8", 0, 1)},
}
_THREE_BYTES = 2
_MAX_CHANNELS, _MAX_RATE = 64, 1_000_000


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
def opened(
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
        held, found = array_sound(sound, rate)
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


def array_sound(samples: "NDArray[Any]", rate: int) -> tuple[Any, Sound]:
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
