"""libthimble for ctypes: the functions of runtime/cpp/runner/thimble.h."""

import ctypes
from functools import cache
from pathlib import Path

from runtime.build import BUILD_DIR
from runtime.errors import RunnerError

ERROR_SIZE = 4096


class Options(ctypes.Structure):
    """thimble_options."""

    _fields_ = [
        ("max_new_tokens", ctypes.c_int64),
        ("temperature", ctypes.c_float),
        ("top_k", ctypes.c_int32),
        ("top_p", ctypes.c_float),
        ("min_p", ctypes.c_float),
        ("seed", ctypes.c_uint64),
    ]


TextCallback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t, ctypes.c_void_p
)


@cache
def library(directory: Path = BUILD_DIR) -> ctypes.CDLL:
    """The library of a build directory, its functions declared.

    Raises:
        RunnerError: it is not built, or cannot be loaded.
    """
    path = directory / "libthimble.so"
    if not path.is_file():
        raise RunnerError(f"{path} is not built: run python -m runtime build")
    try:
        lib = ctypes.CDLL(str(path))
    except OSError as error:
        raise RunnerError(f"cannot load {path}: {error}: run python -m runtime build") from error
    text, size, number, pointer = (
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_void_p,
    )
    lib.thimble_load.restype = pointer
    lib.thimble_load.argtypes = [text, ctypes.c_int32, text, size]
    lib.thimble_generate.restype = number
    lib.thimble_generate.argtypes = [
        pointer,
        text,
        size,
        ctypes.POINTER(Options),
        TextCallback,
        pointer,
        text,
        size,
    ]
    lib.thimble_stats.restype = text
    lib.thimble_stats.argtypes = [pointer]
    lib.thimble_verify.restype = number
    lib.thimble_verify.argtypes = [pointer, text, size]
    lib.thimble_free.restype = None
    lib.thimble_free.argtypes = [pointer]
    return lib
