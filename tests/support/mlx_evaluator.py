"""Runs the MLX program of a `.pte` in numpy: each instruction as MLX defines it, in float32."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from torch import Tensor

from delegates.mlx.schema import import_mlx

HEADER_BYTES = 24  # "MLX0" and the place of a data segment, which ExecuTorch leaves empty
_INTS, _TENSORS = 1, 0  # SlotType
_DTYPES = {0: np.uint8, 1: np.int8, 3: np.int32, 4: np.int64, 6: np.float32, 11: np.bool_}
_PACKED = 16  # uint32 in ExecuTorch's scalar types


class MLXProgram:
    """One delegate's payload, parsed back by the code generated from its schema.

    Attributes:
        graph: the flatbuffer's root.
        chains: instructions as (name, fields), by chain.
        constants: arrays by tensor id, as the file has them.
        names: of constants and caches, by tensor id, without the program's prefix.
    """

    def __init__(self, path: Path) -> None:
        import_mlx()
        from executorch.backends.mlx import pte_inspector
        from executorch.backends.mlx.serialization._generated.mlx_delegate import MLXGraph

        file = deserialize_pte_binary(path.read_bytes())
        (delegate,) = file.program.execution_plan[0].delegates
        assert delegate.id == "MLXBackend"
        data = bytes(file.program.backend_delegate_data[delegate.processed.index].data)
        assert data[4:8] == b"MLX0"
        self.graph = MLXGraph.MLXGraph.GetRootAs(data[HEADER_BYTES:], 0)
        self.chains = [
            [(item["op_name"], item) for item in chain["instructions"]]
            for chain in pte_inspector.parse_mlx_flatbuffer(data[HEADER_BYTES:])[
                "instruction_chains"
            ]
        ]
        self.names: dict[int, str] = {}
        self.constants: dict[int, np.ndarray] = {}
        for index in range(self.graph.NamedSlotsLength()):
            slot = self.graph.NamedSlots(index)
            name, at = slot.Name().decode(), slot.Slot().Idx()
            self.names[at] = name.partition("/")[2]
            if name in file.named_data.pte_data:
                entry = file.named_data.pte_data[name]
                raw = file.named_data.buffers[entry.buffer_index]
                shape, dtype = self.shape(at), self.dtype(at)
                self.constants[at] = np.frombuffer(raw, dtype)[: math.prod(shape)].reshape(shape)

    def shape(self, at: int) -> tuple[int, ...]:
        meta = self.graph.TensorMeta(at)
        return tuple(meta.Shape(index).Value() for index in range(meta.ShapeLength()))

    def dtype(self, at: int) -> Any:
        scalar_type = self.graph.TensorMeta(at).ScalarType()
        return np.uint32 if scalar_type == _PACKED else _DTYPES.get(scalar_type, np.uint32)

    def operators(self) -> list[str]:
        return [name for name, _ in self.chains[self.graph.MainChainIdx()]]


class MLXEvaluator:
    """Calls the program; its caches stay between calls."""

    def __init__(self, program: MLXProgram) -> None:
        self._program = program
        graph = program.graph
        self.tensors: dict[int, np.ndarray] = dict(program.constants)
        self._ints: dict[int, int] = {}
        for index in range(graph.MutableBufferMapLength()):
            at = graph.MutableBufferMap(index).Idx()
            self.tensors[at] = np.zeros(program.shape(at), program.dtype(at))
        self._inputs = [graph.InputMap(i).Idx() for i in range(graph.InputMapLength())]
        (self._output,) = [graph.OutputMap(i).Idx() for i in range(graph.OutputMapLength())]
        if graph.InitChainIdx() >= 0:
            self._run(graph.InitChainIdx())

    def __call__(self, tokens: Tensor, input_pos: Tensor) -> Tensor:
        for at, value in zip(self._inputs, (tokens, input_pos), strict=True):
            self.tensors[at] = value.numpy()
        self._run(self._program.graph.MainChainIdx())
        return torch.from_numpy(self.tensors[self._output].copy())

    def caches(self) -> dict[str, np.ndarray]:
        graph = self._program.graph
        places = [graph.MutableBufferMap(i).Idx() for i in range(graph.MutableBufferMapLength())]
        return {self._program.names[at]: self.tensors[at] for at in places}

    def _run(self, chain: int) -> None:
        for name, fields in self._program.chains[chain]:
            getattr(self, f"_{name.removesuffix('Node')}")(fields)

    def _tensor(self, field: dict[str, int]) -> np.ndarray:
        return self.tensors[field["tid"]]

    def _int(self, field: Any) -> int:
        if isinstance(field, dict):
            return self._ints[field["vid"]] if "vid" in field else field["literal"]
        return field

    def _put(self, f: dict[str, Any], value: np.ndarray) -> None:
        self.tensors[f["out"]["tid"]] = value

    def _SymSize(self, f: dict[str, Any]) -> None:
        self._ints[f["out"]["vid"]] = self._tensor(f["a"]).shape[f["dim"]]

    def _ItemInt(self, f: dict[str, Any]) -> None:
        self._ints[f["out"]["vid"]] = int(self._tensor(f["x"]).item())

    def _AddInt(self, f: dict[str, Any]) -> None:
        self._ints[f["out"]["vid"]] = self._int(f["a"]) + self._int(f["b"])

    def _ARange(self, f: dict[str, Any]) -> None:
        ends = (self._int(f[key]) for key in ("start", "stop", "step"))
        self._put(f, np.arange(*ends, dtype=_DTYPES[f["scalar_type"]]))

    def _Full(self, f: dict[str, Any]) -> None:
        value = f["v"]["literal"] if "literal" in f["v"] else self._int(f["v"])
        shape = [self._int(size) for size in f["shape"]]
        self._put(f, np.full(shape, value, _DTYPES[f["scalar_type"]]))

    def _AsType(self, f: dict[str, Any]) -> None:
        self._put(f, self._tensor(f["x"]).astype(_DTYPES[f["scalar_type"]]))

    def _ExpandDims(self, f: dict[str, Any]) -> None:
        self._put(f, np.expand_dims(self._tensor(f["x"]), f["axis"]))

    def _Slice(self, f: dict[str, Any]) -> None:
        self._put(f, self._tensor(f["x"])[self._range(f, self._tensor(f["x"]))])

    def _SliceUpdate(self, f: dict[str, Any]) -> None:
        out = self._tensor(f["dst"]).copy()
        out[self._range(f, out)] = self._tensor(f["update"])
        self._put(f, out)

    def _range(self, f: dict[str, Any], x: np.ndarray) -> tuple[slice, ...]:
        axis, start, stop = (self._int(f[key]) for key in ("axis", "start", "stop"))
        assert 0 <= start <= stop <= x.shape[axis]
        return (slice(None),) * (axis % x.ndim) + (slice(start, stop, f["step"]),)

    def _Take(self, f: dict[str, Any]) -> None:
        index = self._tensor(f["index"]) if "tid" in f["index"] else self._int(f["index"])
        self._put(f, np.take(self._tensor(f["x"]), index, axis=f["axis"]))

    def _Dequantize(self, f: dict[str, Any]) -> None:
        self._put(f, self._dequantized(f))

    def _dequantized(self, f: dict[str, Any]) -> np.ndarray:
        """scale * integer + bias, the integers from the low bits of 32-bit words up."""
        assert f["mode"] == "affine"
        words, bits = self._tensor(f["w"]), f["bits"]
        shifts = np.arange(0, 32, bits, dtype=np.uint32)
        values = (words[..., None] >> shifts) & np.uint32(2**bits - 1)
        groups = values.reshape(*words.shape[:-1], -1, f["group_size"]).astype(np.float32)
        scales, biases = (self._tensor(f[key])[..., None] for key in ("scales", "biases"))
        return (scales * groups + biases).reshape(*words.shape[:-1], -1)

    def _QuantizedMatmul(self, f: dict[str, Any]) -> None:
        assert f["transpose"]
        self._put(f, self._tensor(f["x"]) @ self._dequantized(f).T)

    def _Addmm(self, f: dict[str, Any]) -> None:
        out = self._tensor(f["mat1"]) @ self._tensor(f["mat2"])
        self._put(f, out + self._tensor(f["bias"]) if "bias" in f else out)

    def _RMSNorm(self, f: dict[str, Any]) -> None:
        x = self._tensor(f["x"])
        mean = np.mean(x * x, axis=-1, keepdims=True)
        self._put(f, x / np.sqrt(mean + np.float32(f["eps"])) * self._tensor(f["weight"]))

    def _Reshape(self, f: dict[str, Any]) -> None:
        self._put(f, self._tensor(f["x"]).reshape([self._int(size) for size in f["shape"]]))

    def _Split(self, f: dict[str, Any]) -> None:
        x, axis = self._tensor(f["x"]), f["axis"]
        (size,) = (self._int(item) for item in f["sizes"])
        parts = np.split(x, range(size, x.shape[axis], size), axis)
        for out, part in zip(f["outs"], parts, strict=True):
            self.tensors[int(out.removeprefix("tid "))] = part

    def _IdCopy(self, f: dict[str, Any]) -> None:
        self._put(f, self._tensor(f["x"]))

    def _Multiply(self, f: dict[str, Any]) -> None:
        self._put(f, self._tensor(f["a"]) * self._tensor(f["b"]))

    def _Add(self, f: dict[str, Any]) -> None:
        self._put(f, self._tensor(f["a"]) + self._tensor(f["b"]))

    def _Subtract(self, f: dict[str, Any]) -> None:
        self._put(f, self._tensor(f["a"]) - self._tensor(f["b"]))

    def _Greater(self, f: dict[str, Any]) -> None:
        self._put(f, self._tensor(f["a"]) > self._tensor(f["b"]))

    def _LessEqual(self, f: dict[str, Any]) -> None:
        self._put(f, self._tensor(f["a"]) <= self._tensor(f["b"]))

    def _LogicalOr(self, f: dict[str, Any]) -> None:
        self._put(f, self._tensor(f["a"]) | self._tensor(f["b"]))

    def _Concatenate(self, f: dict[str, Any]) -> None:
        parts = [self.tensors[int(item.removeprefix("tid "))] for item in f["tensors"]]
        self._put(f, np.concatenate(parts, f["axis"]))

    def _Transpose(self, f: dict[str, Any]) -> None:
        self._put(f, self._tensor(f["x"]).transpose(f["perm"]))

    def _Pad(self, f: dict[str, Any]) -> None:
        assert f["mode"] == "constant"
        widths = [self._int(width) for width in f["pad_width"]]
        pairs = list(zip(widths[::2], widths[1::2], strict=True))
        self._put(f, np.pad(self._tensor(f["x"]), pairs, constant_values=f["constant_value"]))

    def _Silu(self, f: dict[str, Any]) -> None:
        x = self._tensor(f["x"])
        self._put(f, x / (1 + np.exp(-x)))

    def _Sdpa(self, f: dict[str, Any]) -> None:
        """Causal from the end, so that the last query sees every key, or with a mask that is added
        to the scores; query heads share key heads."""
        query, key, value = (self._tensor(f[name]) for name in "qkv")
        group = query.shape[1] // key.shape[1]
        key, value = (np.repeat(item, group, axis=1) for item in (key, value))
        scores = query @ key.swapaxes(-1, -2) * np.float32(f["scale"])
        queries, keys = scores.shape[-2:]
        if f["causal"]:
            assert "mask" not in f
            hidden = np.triu(np.ones((queries, keys), bool), keys - queries + 1)
            scores = np.where(hidden, -np.inf, scores)
        else:
            assert self._tensor(f["mask"]).shape == (queries, keys)
            scores = scores + self._tensor(f["mask"])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        self._put(f, weights / weights.sum(-1, keepdims=True) @ value)
