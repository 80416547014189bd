"""Runs a Core ML program with numpy, one operation after the other, its states kept.

What each operation does is Apple's: https://apple.github.io/coremltools/source/
coremltools.converters.mil.mil.ops.defs.html. Every result is rounded to the type that the program
declares for it; products and means add up in float32, as Apple's processors do at least.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from support.core_ml_program import DTYPES, CoreMLProgram

Array = np.ndarray
Inputs = dict[str, Any]


class CoreMLEvaluator:
    """One program with its states.

    Args:
        program: what a `.pte` holds.
        wide: take float16 for float32, which leaves the rounding of constants alone.
    """

    def __init__(self, program: CoreMLProgram, wide: bool = False) -> None:
        self._program = program
        self._wide = wide
        self._float = np.float32 if wide else np.float16
        self._constants: dict[str, Any] = {}
        self.states = {name: np.zeros(shape, self._float) for name, shape in program.states.items()}
        self.largest = 0.0  # magnitude that any operation has computed
        for op in program.operations:
            if op.type == "const":
                self._constants[op.outputs[0].name] = self._stored(op.attributes["val"])

    def __call__(self, **inputs: Array) -> list[Array]:
        """The program's outputs; every value on the way must be a finite number."""
        values: dict[str, Any] = {**self._constants, **inputs}
        for op in self._program.operations:
            if op.type != "const":
                with np.errstate(over="ignore"):
                    results = self._run(op, values)
                for output, result in zip(op.outputs, results, strict=True):
                    values[output.name] = self._declared(result, output.type, output.name)
        return [values[name] for name in self._program.outputs]

    def _run(self, op: Any, values: dict[str, Any]) -> list[Any]:
        names = {key: [a.name for a in bound.arguments] for key, bound in op.inputs.items()}
        if op.type == "read_state":
            return [self.states[names["input"][0]]]
        if op.type == "write_state":
            self.states[names["input"][0]] = values[names["data"][0]]
            return []
        inputs: Inputs = {}
        for key, bound in op.inputs.items():
            given = [
                self._stored(argument.value)
                if argument.WhichOneof("binding") == "value"
                else values[argument.name]
                for argument in bound.arguments
            ]
            inputs[key] = given if key == "values" else given[0]
        result = OPERATIONS[op.type](inputs)
        return result if isinstance(result, list) else [result]

    def _declared(self, result: Any, declared: Any, name: str) -> Array:
        tensor = declared.tensorType
        dtype = DTYPES[tensor.dataType]
        if dtype is np.float16:
            dtype = self._float
        result = np.asarray(result).astype(dtype)
        sizes = [size.constant.size for size in tensor.dimensions]
        assert result.ndim == len(sizes), name
        for size, want, kind in zip(result.shape, sizes, tensor.dimensions, strict=True):
            assert kind.WhichOneof("dimension") == "unknown" or size == want, name
        if dtype is self._float:
            assert np.isfinite(result).all(), f"{name} is not finite"
            self.largest = max(self.largest, float(np.abs(result).max(initial=0)))
        return result

    def _stored(self, value: Any) -> Any:
        value = self._program.value(value)
        if isinstance(value, np.ndarray) and value.dtype == np.float16:
            return value.astype(self._float)
        return value


def _wide(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype == np.float16 else x


def _blockwise(i: Inputs) -> Array:
    assert "offset" not in i
    scale = i["scale"]
    for axis, size in enumerate(i["data"].shape):
        scale = scale.repeat(size // scale.shape[axis], axis)
    return _wide(i["data"].astype(scale.dtype)) * _wide(scale)


def _slices(i: Inputs, shape: tuple[int, ...]) -> tuple[slice, ...]:
    rank = len(shape)
    none = [False] * rank
    begin_mask, end_mask = i.get("begin_mask", none), i.get("end_mask", none)
    stride = i.get("stride", [1] * rank)
    squeeze = i.get("squeeze_mask", none)
    return tuple(
        int(begin)
        if drop
        else slice(None if no_begin else int(begin), None if no_end else int(end), int(step))
        for begin, end, step, no_begin, no_end, drop in zip(
            i["begin"], i["end"], stride, begin_mask, end_mask, squeeze, strict=True
        )
    )


def _slice_update(i: Inputs) -> Array:
    out = i["x"].copy()
    place = out[_slices(i, out.shape)]
    assert place.shape == i["update"].shape  # Core ML does not broadcast here
    out[_slices(i, out.shape)] = i["update"]
    return out


def _gather(i: Inputs) -> Array:
    axis, indices = int(i["axis"]), i["indices"]
    assert int(i["batch_dims"]) == 0
    size = i["x"].shape[axis]
    assert (indices >= -size).all() and (indices < size).all()
    return np.take(i["x"], indices.astype(np.int64), axis)


def _matmul(i: Inputs) -> Array:
    x, y = _wide(i["x"]), _wide(i["y"])
    x = x.swapaxes(-1, -2) if i["transpose_x"] else x
    y = y.swapaxes(-1, -2) if i["transpose_y"] else y
    return x @ y


def _softmax(i: Inputs) -> Array:
    x = _wide(i["x"])
    powers = np.exp(x - x.max(int(i["axis"]), keepdims=True))
    return powers / powers.sum(int(i["axis"]), keepdims=True)


def _silu(i: Inputs) -> Array:
    x = _wide(i["x"])
    return x / (1 + np.exp(-x))


def _pad(i: Inputs) -> Array:
    assert i["mode"] == "constant"
    pairs = i["pad"].reshape(-1, 2)
    return np.pad(i["x"], pairs, constant_values=i["constant_val"])


def _concat(i: Inputs) -> Array:
    assert not i["interleave"]
    return np.concatenate([np.atleast_1d(x) for x in i["values"]], int(i["axis"]))


def _split(i: Inputs) -> list[Array]:
    ends = np.cumsum(i["split_sizes"])[:-1]
    return np.split(i["x"], ends, int(i["axis"]))


def _reshape(i: Inputs) -> Array:
    shape = [i["x"].shape[k] if size == 0 else int(size) for k, size in enumerate(i["shape"])]
    return i["x"].reshape(shape)


def _reduce(function: Callable[..., Array]) -> Callable[[Inputs], Array]:
    def run(i: Inputs) -> Array:
        axes = tuple(int(axis) for axis in i["axes"]) if "axes" in i else None
        return function(_wide(i["x"]), axis=axes, keepdims=bool(i["keep_dims"]))

    return run


def _expand_dims(i: Inputs) -> Array:
    return np.expand_dims(i["x"], tuple(int(axis) for axis in i["axes"]))


def _topk(i: Inputs) -> list[Array]:
    assert i["sort"] and i["return_indices"] and not i["ascending"]
    axis, count = int(i["axis"]), int(i["k"])
    indices = np.argsort(-_wide(i["x"]), axis, kind="stable").take(range(count), axis)
    return [np.take_along_axis(i["x"], indices, axis), indices]


def _scatter(i: Inputs) -> Array:
    assert i["mode"] == "update"
    out = i["data"].copy()
    np.put_along_axis(out, i["indices"].astype(np.int64), i["updates"], int(i["axis"]))
    return out


def _sigmoid(i: Inputs) -> Array:
    return 1 / (1 + np.exp(-_wide(i["x"])))


OPERATIONS: dict[str, Callable[[Inputs], Any]] = {
    "abs": lambda i: np.abs(i["x"]),
    "add": lambda i: i["x"] + i["y"],
    "cast": lambda i: i["x"],  # to the type that the program declares
    "clip": lambda i: np.clip(i["x"], i["alpha"], i["beta"]),
    "concat": _concat,
    "constexpr_blockwise_shift_scale": _blockwise,
    "expand_dims": _expand_dims,
    "gather": _gather,
    "gather_along_axis": lambda i: np.take_along_axis(i["x"], i["indices"], int(i["axis"])),
    "greater": lambda i: i["x"] > i["y"],
    "greater_equal": lambda i: i["x"] >= i["y"],
    "linear": lambda i: _wide(i["x"]) @ _wide(i["weight"]).T + _wide(i["bias"]),
    "matmul": _matmul,
    "minimum": lambda i: np.minimum(i["x"], i["y"]),
    "mul": lambda i: i["x"] * i["y"],
    "pad": _pad,
    "range_1d": lambda i: np.arange(int(i["start"]), int(i["end"]), int(i["step"])),
    "real_div": lambda i: i["x"] / i["y"],
    "reduce_max": _reduce(np.max),
    "reduce_mean": _reduce(np.mean),
    "reduce_sum": _reduce(np.sum),
    "reshape": _reshape,
    "rsqrt": lambda i: 1 / np.sqrt(_wide(i["x"]) + _wide(i["epsilon"])),
    "scatter_along_axis": _scatter,
    "select": lambda i: np.where(i["cond"], i["a"], i["b"]),
    "shape": lambda i: np.array(i["x"].shape),
    "sigmoid": _sigmoid,
    "silu": _silu,
    "slice_by_index": lambda i: i["x"][_slices(i, i["x"].shape)],
    "slice_update": _slice_update,
    "softmax": _softmax,
    "split": _split,
    "sub": lambda i: i["x"] - i["y"],
    "tile": lambda i: np.tile(i["x"], i["reps"]),
    "topk": _topk,
    "transpose": lambda i: i["x"].transpose(i["perm"]),
}
