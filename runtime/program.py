"""A program of tensors: any module that `python -m exporter module.py:make` wrote, with numpy."""

import ctypes
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.binding.c_arguments import MAX_COUNT, check_whole, encoded, text_of, utf8_of
from runtime.binding.file_handle import FileHandle
from runtime.binding.library import ERROR_SIZE, RecordingCounts, Tensor, library
from runtime.errors import RunnerError, shown
from runtime.recording import MAX_RECORDING_BYTES, Recording

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Size:
    """One size of a shape, from `least` to `most`; sizes of one `symbol` belong together."""

    least: int
    most: int
    symbol: str


@dataclass(frozen=True)
class TensorSpec:
    """What an input or an output may be; `type` is numpy's name, or "bfloat16"."""

    name: str
    type: str
    sizes: tuple[Size, ...]


class Program(FileHandle):
    """A method of a loaded program of tensors: `Program("module.pte")(array)`. Of several methods
    it is `forward`, or the first if there is none; method() returns the others.

    Buffers that its calls change keep their values until reset(). One thread at a time runs a
    file's methods; others wait.

    Args:
        path: the file.
        threads: 1 to 256; None: automatic. As for a Runner, the first file sets the number for all.
        require_signature: an Ed25519 public key, with which every byte of the file must have been
            signed, in FILE.sig: a file of PEM or of its 32 bytes, or the text of the PEM; None: no
            signature is needed.

    Raises:
        RunnerError: the file cannot be used, or the C++ is not built.
    """

    _KIND, _NOUN, _AGAIN = "program", "a Program", "load the file again"

    def __init__(
        self,
        path: str | os.PathLike[str],
        threads: int | None = None,
        require_signature: str | os.PathLike[str] | None = None,
    ) -> None:
        self._read(self._load(path, threads, require_signature))

    def method(self, name: str) -> "Program":
        """Returns another method of the same file, which is loaded only once. Either may be closed
        first.

        Raises:
            RunnerError: there is no such method, or this one is closed.
        """
        other = Program.__new__(Program)
        with self._busy:
            error = ctypes.create_string_buffer(ERROR_SIZE)
            load = library().thimble_program_method
            handle = load(self._open(), utf8_of("the name of a method", name), error, ERROR_SIZE)
        if not handle:
            raise RunnerError(text_of(error))
        other._share(self, handle)
        other._read(handle)
        return other

    def _read(self, handle: int) -> None:
        signature = json.loads(library().thimble_program_signature(handle))
        self.methods: tuple[str, ...] = tuple(json.loads(library().thimble_program_methods(handle)))
        self.name: str = signature["name"]
        self.inputs: tuple[TensorSpec, ...] = tuple(map(_spec, signature["inputs"]))
        self.outputs: tuple[TensorSpec, ...] = tuple(map(_spec, signature["outputs"]))
        self.state: tuple[str, ...] = tuple(signature["state"])  # the buffers that calls change

    def __call__(
        self, *inputs: "ArrayLike", **named: "ArrayLike"
    ) -> "NDArray[Any] | dict[str, NDArray[Any]]":
        """Runs the program.

        Args:
            inputs: in the order of `self.inputs`, or by name. bfloat16 is given as float32, and
                rounded.

        Returns:
            the output, or, of several, the outputs by name; bfloat16 as float32.

        Raises:
            RunnerError: an input is missing, too much, or has another type or shape; an input has a
                NaN that the program would lose; the program failed, or is closed.
        """
        given = [("", value) for value in inputs] + list(named.items())
        arrays = [
            _array(name or f"input {number}", value)
            for number, (name, value) in enumerate(given, start=1)
        ]
        shapes = [(ctypes.c_int64 * array.ndim)(*array.shape) for array in arrays]
        tensors = (Tensor * len(given))()
        for tensor, (name, _), array, shape in zip(tensors, given, arrays, shapes, strict=True):
            tensor.name = utf8_of("the name of an input", name)
            tensor.type = array.dtype.name.encode()
            tensor.shape, tensor.rank = shape, array.ndim
            tensor.data = array.ctypes.data
        with self._busy:
            self._call(library().thimble_program_run, tensors, len(given))
            results = [self._output(index) for index in range(len(self.outputs))]
        if len(results) == 1:
            return results[0]
        return {spec.name: array for spec, array in zip(self.outputs, results, strict=True)}

    def reset(self) -> None:
        """Gives the buffers that calls change the values that they had at the export.

        Raises:
            RunnerError: it is closed.
        """
        with self._busy:
            self._call(library().thimble_program_reset)

    def start_recording(self, max_calls: int = 256, max_bytes: int = 32 << 20) -> None:
        """Records ExecuTorch's profile (an ETDump) from the next call on, as Runner's does.

        Raises:
            RunnerError: it already records, a limit is out of range, or it is closed.
        """
        check_whole("max_calls", max_calls, 1, MAX_COUNT)
        check_whole("max_bytes", max_bytes, 1, MAX_RECORDING_BYTES)
        with self._busy:
            self._call(library().thimble_program_start_recording, max_calls, max_bytes)

    def stop_recording(self, path: str | os.PathLike[str]) -> Recording:
        """Ends the recording and writes it to a file, completely or not at all.

        Raises:
            RunnerError: no recording is running, nothing was recorded, the file cannot be written,
                or it is closed.
        """
        counts = RecordingCounts()
        with self._busy:
            stop = library().thimble_program_stop_recording
            self._call(stop, encoded(path), ctypes.byref(counts))
        return Recording(Path(path), counts.calls, counts.dropped_calls)

    def _call(self, function: Callable[..., int], *arguments: object) -> None:
        error = ctypes.create_string_buffer(ERROR_SIZE)
        if function(self._open(), *arguments, error, ERROR_SIZE):
            raise RunnerError(text_of(error))

    def _output(self, index: int) -> "NDArray[Any]":
        import numpy as np

        tensor = Tensor()
        self._call(library().thimble_program_output, index, ctypes.byref(tensor))
        shape = tuple(tensor.shape[: tensor.rank])
        name = tensor.type.decode()
        type = np.dtype(np.uint16 if name == "bfloat16" else name)
        size = type.itemsize
        for length in shape:
            size *= length
        array = np.frombuffer(ctypes.string_at(tensor.data, size), type).reshape(shape)
        if name == "bfloat16":
            return (array.astype(np.uint32) << 16).view(np.float32)
        return array.copy()


def _spec(fields: dict[str, Any]) -> TensorSpec:
    sizes = tuple(Size(*size) for size in fields["sizes"])
    return TensorSpec(fields["name"], fields["type"], sizes)


def _array(name: str, value: "ArrayLike") -> "NDArray[Any]":
    """
    Raises:
        RunnerError: it is no array, or some of its numbers are masked.
    """
    import numpy as np

    if np.ma.is_masked(value):
        raise RunnerError(f"{name} has masked numbers, which a program cannot leave out; fill them")
    if "torch.bfloat16" in str(getattr(value, "dtype", "")):  # which torch gives no array of
        value = value.float()  # type: ignore[union-attr]
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise RunnerError(f"{name} cannot be made an array: {error}") from error
    if array.dtype.kind in "OSU":
        raise RunnerError(
            f"{name} is {shown(value)}, but must be an array of numbers; give inputs by name as "
            "program(x=array)"
        )
    return np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)
