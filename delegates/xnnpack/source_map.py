"""From XNNPACK's profiled events to debug handles: the map that its own lowering leaves empty.

XNNPACK serializes the debug handle of every node; its profiler names events by what they run and
numbers those of one name in each delegate call, as "Multiply (ND) #2", in the order of the nodes.
So the n-th node of a kind is the n-th event of that kind's name. The name of a matrix product says
which kernels the machine that runs it has (QDU8 where the processor multiplies unsigned by signed,
QP8 where the product packs its input itself), so each is entered under every name it may get. A
conversion to int8 has no event of its own where the product does it.

The map goes into the ETRecord's delegate map, where ExecuTorch's own Inspector looks for it too.
"""

import json
import re
import struct
import tempfile
from collections import Counter
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

from torch.fx import GraphModule

_HEADER_MAGIC = b"XH00"
_INFINITE = re.compile(r"(?<=: )(-?)inf\b")  # flatc writes bounds so; JSON has no word for them
_UNKNOWN_HANDLE = 65535  # of a node without one

_UNARY = {
    "Abs": "Abs",
    "Ceiling": "Ceiling",
    "Clamp": "Clamp",
    "Cos": "Cosine",
    "ELU": "ELU",
    "Exp": "Exp",
    "Floor": "Floor",
    "Gelu": "GELU",
    "Hardswish": "HardSwish",
    "LeakyReLU": "LeakyReLU",
    "Log": "Log",
    "Negate": "Negate",
    "ReciprocalSquareRoot": "Reciprocal Square Root",
    "Sigmoid": "Sigmoid",
    "Sin": "Sine",
    "Square": "Square",
    "SquareRoot": "Square Root",
    "Tanh": "TanH",
}
_BINARY = {
    "Add": "Add",
    "Div": "Divide",
    "Maximum": "Maximum",
    "Minimum": "Minimum",
    "Multiply": "Multiply",
    "PReLU": "PReLU",
    "Subtract": "Subtract",
}
_MOVING = {
    "StaticTranspose": "Transpose (ND, X{})",
    "StaticSlice": "Slice (ND, X{})",
    "StaticConstantPad": "Constant Pad (ND, X{})",
    "StaticReshape": "Static Reshape (NC)",
    "Copy": "Copy (NC, X{})",
    **{f"Concatenate{count}": "Copy (NC, X{})" for count in range(2, 6)},
}
_POOLINGS = {
    "AvgPooling2d": "Average Pooling (NHWC, {}) Average Pooling",
    "MaxPooling2d": "Max Pooling (NHWC, {})",
}
# The words for a filter's types, in the names of convolutions: activations, then weights.
_FILTERS = {
    ("fp32", "fp32"): "F32",
    ("fp16", "fp16"): "F16",
    ("qint8", "qcint8"): "QC8",
    ("qint8", "qint8"): "QS8",
}
_BITS = {"fp32": 32, "fp16": 16, "qint8": 8, "quint8": 8, "qcint8": 8}
_DYNAMIC = ("QD8", "QDU8", "QP8")
_WEIGHTS = {"qbint4": "QB4W", "qcint4": "QC4W", "qcint8": "QC8W", "qcint2": "QC2W"}
_FLOATS = {"fp32": ("F32", "PF32"), "fp16": ("F16", "PF16")}


def add_source_map(graph_module: GraphModule) -> int:
    """Fills in the maps of all XNNPACK calls of an edge program's graph, in place; returns how many
    nodes they hold. Only names that are certain are entered: an event of a kind that is not listed
    here stays unattributed."""
    count = 0
    for node in graph_module.graph.nodes:
        if getattr(node.target, "__name__", "") != "executorch_call_delegate":
            continue
        lowered: Any = getattr(graph_module, node.args[0].target)
        if lowered.backend_id != "XnnpackBackend":
            continue
        event_map = event_handles(lowered.processed_bytes)
        lowered.meta = {**(lowered.meta or {}), "debug_handle_map": event_map}
        count += len({handle for handles in event_map.values() for handle in handles})
    return count


def event_handles(processed: bytes) -> dict[str, tuple[int, ...]]:
    """The debug handles of each event that a delegate call can record, by the event's name.

    In order of their numbers: ExecuTorch's Inspector takes the last name that an event's begins
    with.
    """
    graph = _read_graph(processed)
    values = {
        tensor["id_out"]: tensor["datatype"].removeprefix("xnn_datatype_")
        for tensor in (
            value["xvalue_union"].get("tensor_value", value["xvalue_union"])
            for value in graph["xvalues"]
        )
    }
    counts: Counter[str] = Counter()
    handles_of: dict[str, tuple[int, ...]] = {}
    nodes = graph["xnodes"]
    for node, handle in zip(nodes, _handles(nodes), strict=True):
        for name in _names(
            node["xnode_union_type"].removeprefix("XNN"), node["xnode_union"], values
        ):
            counts[name] += 1
            if handle != _UNKNOWN_HANDLE:
                handles_of[f"{name} #{counts[name]}"] = (handle,)
    return handles_of


def _handles(nodes: list[dict[str, Any]]) -> list[int]:
    """Returns the debug handle of each node; of one that XNNPACK's lowering adds, such as a
    transpose, that of the node that reads its result, else of the one whose result it changes."""
    handles = [node["debug_handle"] for node in nodes]
    unions = [node["xnode_union"] for node in nodes]
    readers: dict[int, int] = {}
    for index in reversed(range(len(nodes))):
        if handles[index] == _UNKNOWN_HANDLE:
            handles[index] = readers.get(unions[index].get("output_id"), _UNKNOWN_HANDLE)
        for key in ("input_id", "input1_id", "input2_id"):
            if key in unions[index] and handles[index] != _UNKNOWN_HANDLE:
                readers[unions[index][key]] = handles[index]
    makers: dict[int, int] = {}
    for index, union in enumerate(unions):
        if handles[index] == _UNKNOWN_HANDLE:
            handles[index] = makers.get(union.get("input_id", -1), _UNKNOWN_HANDLE)
        makers[union.get("output_id", -1)] = handles[index]
    return handles


def _names(kind: str, node: dict[str, Any], values: dict[int, str]) -> Iterator[str]:
    """Every name that the event of a node may have, without its number."""
    if kind in _UNARY:
        yield f"{_UNARY[kind]} (NC)"
        if kind == "Gelu":
            yield "ApproxGELU (NC)"
    elif kind == "Multiply" and node["input1_id"] == node["input2_id"]:
        yield "Square (NC)"  # XNNPACK makes one of it
    elif kind in _BINARY:
        yield f"{_BINARY[kind]} (ND)"
    elif kind in _MOVING:
        bits = _BITS.get(values.get(node["output_id"], ""))
        if bits is not None:
            yield _MOVING[kind].format(bits)
    elif kind == "Softmax":
        yield from (
            f"Softmax (NC, {name})" for name in _FLOATS.get(values[node["output_id"]], ())[:1]
        )
    elif kind == "Convert":
        yield from _conversion_names(values[node["input_id"]], values[node["output_id"]])
    elif kind == "FullyConnected":
        yield from _product_names(
            values[node["input1_id"]], values[node["filter_id"]], values[node["output_id"]]
        )
    elif kind in ("Conv2d", "DepthwiseConv2d", "ConvTranspose2d"):
        type = _FILTERS.get((values[node["input1_id"]], values[node["filter_id"]]))
        if type is not None:
            yield _convolution_name(kind, node, type)
    elif kind in _POOLINGS:
        yield from (
            _POOLINGS[kind].format(name) for name in _FLOATS.get(values[node["input_id"]], ())[:1]
        )
    elif kind == "GlobalAvgPooling2d":
        yield "Mean (ND) Reduce2"
    elif kind == "StaticResizeBilinear2D":
        yield "Resize Bilinear (NHWC)"
    elif kind == "BatchMatrixMultiply":
        for name in _FLOATS.get(values[node["input1_id"]], ()):
            yield f"Batch Matrix Multiply (NC, {name}) GEMM"


def _convolution_name(kind: str, node: dict[str, Any], type: str) -> str:
    """XNNPACK multiplies the pixels as rows where each is read once."""
    if kind == "ConvTranspose2d":
        steps = node["subsampling_height"], node["subsampling_width"]
        kernel = node["kernel_height"], node["kernel_width"]
        parts = max(steps) > 1 and all(k >= s for k, s in zip(kernel, steps, strict=True))
        return f"Deconvolution (NHWC, {type}) {'Subconv2D' if parts else 'IGEMM'}"
    if kind == "DepthwiseConv2d":  # also of one channel, which is a group by itself
        single = node["group_output_channels"] == 1
        return f"Convolution (NHWC, {type}) {'DWConv' if single else 'IGEMM'}"
    ones = ("kernel_height", "kernel_width", "subsampling_height", "subsampling_width", "groups")
    paddings = (node.get(f"padding_{side}", 0) for side in ("top", "right", "bottom", "left"))
    if all(node[name] == 1 for name in ones) and not any(paddings):
        return f"Fully Connected (NC, {type}) GEMM"
    return f"Convolution (NHWC, {type}) IGEMM"


def _conversion_names(source: str, target: str) -> Iterator[str]:
    if target == "qdint8" and source in _FLOATS:
        yield from (f"Convert (NC, {_FLOATS[source][0]}, {name})" for name in _DYNAMIC)
    else:
        yield "Convert (NC)"


def _product_names(source: str, weight: str, result: str) -> Iterator[str]:
    if source == "qdint8" and weight in _WEIGHTS and result in _FLOATS:
        for name in _DYNAMIC:
            yield f"Fully Connected (NC, {name}, {_FLOATS[result][0]}, {_WEIGHTS[weight]}) GEMM"
    elif source == weight and source in _FLOATS:
        yield from (f"Fully Connected (NC, {name}) GEMM" for name in _FLOATS[source])
        yield from (f"Dynamic Fully Connected (NC, {name}) GEMM" for name in _FLOATS[source])


def _read_graph(processed: bytes) -> dict[str, Any]:
    from executorch.backends.xnnpack import serialization
    from executorch.exir._serialize._flatbuffer import _flatc_decompile

    start, size = 0, len(processed)
    if processed[4:8] == _HEADER_MAGIC:
        start, size = struct.unpack_from("<II", processed, 10)
    with (
        tempfile.TemporaryDirectory() as name,
        resources.as_file(resources.files(serialization) / "runtime_schema.fbs") as schema,
    ):
        directory = Path(name)
        (directory / "graph.bin").write_bytes(processed[start : start + size])
        _flatc_decompile(name, str(schema), str(directory / "graph.bin"), ["--raw-binary"])
        text = (directory / "graph.json").read_text()
        graph: dict[str, Any] = json.loads(_INFINITE.sub(r"\1Infinity", text))
    return graph
