"""Runs a `.pte` in this process's ExecuTorch and shows each value as it is computed."""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from runtime.binding.c_arguments import text_of
from runtime.binding.library import ERROR_SIZE, open_library
from runtime.build import BUILD_DIR
from runtime.errors import RunnerError

# instruction, the delegate's own id of an operator inside its call (None: an argument of the
# instruction), the bytes of float32 numbers, valid until it returns.
OnValue = Callable[[int, str | None, memoryview], None]

_FLOAT_BYTES = 4
_Callback = ctypes.CFUNCTYPE(
    None,
    ctypes.c_int64,
    ctypes.c_char_p,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_void_p,
)


class _Tensor(ctypes.Structure):
    """thimble_watch_tensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("type", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("sizes", ctypes.POINTER(ctypes.c_int32)),
    ]


class WatchedTensor(NamedTuple):
    """A contiguous tensor in memory.

    Attributes:
        address: of its first number, which must stay while it is used.
        type: torch's number of its type.
    """

    address: int
    type: int
    sizes: Sequence[int]


class WatchedProgram:
    """The method `forward` of a file, with the kernels and delegates that this process has
    registered with ExecuTorch. Use it as a context manager.

    Args:
        path: the file.
        width: numbers of the output of call(), such as the logits of a vocabulary.

    Raises:
        RunnerError: the C++ is not built, or the file cannot be loaded.
    """

    def __init__(self, path: Path, width: int = 0) -> None:
        self._library = _library()
        self._width = width
        error = ctypes.create_string_buffer(ERROR_SIZE)
        self._handle: int | None = self._library.thimble_watch_load(
            str(path).encode(), error, ERROR_SIZE
        )
        if self._handle is None:
            raise RunnerError(text_of(error))

    def __enter__(self) -> "WatchedProgram":
        return self

    def __exit__(self, *_: object) -> None:
        self._library.thimble_watch_free(self._handle)
        self._handle = None

    def call(
        self, tokens: Sequence[int], start_pos: int, on_value: OnValue
    ) -> "ctypes.Array[ctypes.c_float]":
        """Runs `forward`(tokens, input_pos), or `forward`(tokens); returns its output, such as the
        logits after the last token: float32 (width,).

        Args:
            tokens: at positions from start_pos on, if the file takes them.
            on_value: receives every float32 value in the order of computation; if it raises, it is
                not called again, and the error is raised here after the call has ended.

        Raises:
            RunnerError: the call failed.
        """
        row = (ctypes.c_float * self._width)()
        given = (ctypes.c_int64 * len(tokens))(*tokens)
        error = ctypes.create_string_buffer(ERROR_SIZE)
        with _shown_to(on_value) as show:
            failed = self._library.thimble_watch_call(
                *(self._handle, given, len(tokens), start_pos, show, None),
                *(row, self._width, error, ERROR_SIZE),
            )
        if failed:
            raise RunnerError(text_of(error))
        return row

    def run(self, inputs: Sequence[WatchedTensor], on_value: OnValue) -> None:
        """Runs `forward` of any module; on_value is that of call().

        Raises:
            RunnerError: the call failed.
        """
        given = (_Tensor * len(inputs))()
        for tensor, one in zip(given, inputs, strict=True):
            sizes = (ctypes.c_int32 * len(one.sizes))(*one.sizes)
            tensor.data, tensor.type, tensor.rank = one.address, one.type, len(one.sizes)
            tensor.sizes = sizes
        error = ctypes.create_string_buffer(ERROR_SIZE)
        with _shown_to(on_value) as show:
            failed = self._library.thimble_watch_run(
                self._handle, given, len(inputs), show, None, error, ERROR_SIZE
            )
        if failed:
            raise RunnerError(text_of(error))


@contextmanager
def _shown_to(on_value: OnValue) -> Iterator[Any]:
    """Provides the callback that passes values to on_value, and raises what that raised."""
    raised: list[BaseException] = []

    @_Callback
    def show(instruction: int, debug_id: bytes | None, at: int, count: int, _: None) -> None:
        if raised:
            return
        numbers = (ctypes.c_char * (_FLOAT_BYTES * count)).from_address(at)
        try:
            name = None if debug_id is None else debug_id.decode()
            on_value(instruction, name, memoryview(numbers).cast("B"))
        except BaseException as error:  # also Ctrl-C: C++ would drop it
            raised.append(error)

    yield show
    if raised:
        raise raised[0]


@cache
def _library() -> ctypes.CDLL:
    """Returns the library in the build directory, with its functions declared.

    Raises:
        RunnerError: it is not built, or cannot be loaded.
    """
    library = open_library(BUILD_DIR / "libthimble_watch.so")
    text, size, pointer, wide = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int64
    tokens, row = ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_float)
    library.thimble_watch_load.restype = pointer
    library.thimble_watch_load.argtypes = [text, text, size]
    library.thimble_watch_call.restype = ctypes.c_int
    library.thimble_watch_call.argtypes = [
        pointer,
        tokens,
        wide,
        wide,
        _Callback,
        pointer,
        row,
        wide,
        text,
        size,
    ]
    library.thimble_watch_run.restype = ctypes.c_int
    library.thimble_watch_run.argtypes = [
        *(pointer, ctypes.POINTER(_Tensor), size, _Callback, pointer),
        *(text, size),
    ]
    library.thimble_watch_free.restype = None
    library.thimble_watch_free.argtypes = [pointer]
    return library
