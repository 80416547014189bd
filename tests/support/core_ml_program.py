"""The Core ML model inside a `.pte`, read back from the file's own bytes."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from coremltools.libmilstoragepython import _BlobStorageReader
from coremltools.proto import MIL_pb2, Model_pb2
from executorch.backends.apple.coreml import executorchcoreml
from executorch.exir._serialize._program import deserialize_pte_binary

DTYPES = {
    MIL_pb2.DataType.FLOAT16: np.float16,
    MIL_pb2.DataType.FLOAT32: np.float32,
    MIL_pb2.DataType.INT8: np.int8,
    MIL_pb2.DataType.UINT8: np.uint8,
    MIL_pb2.DataType.INT16: np.int16,
    MIL_pb2.DataType.UINT16: np.uint16,
    MIL_pb2.DataType.INT32: np.int32,
    MIL_pb2.DataType.BOOL: np.bool_,
    MIL_pb2.DataType.INT4: np.int8,
}
_BLOBS = {
    MIL_pb2.DataType.FLOAT16: "read_fp16_data",
    MIL_pb2.DataType.INT8: "read_int8_data",
    MIL_pb2.DataType.INT4: "read_int4_data",
    MIL_pb2.DataType.INT32: "read_int32_data",
}


@dataclass(frozen=True)
class CoreMLProgram:
    """One delegate's model.

    Attributes:
        spec: the model's protobuf.
        weights: the file beside it that holds its large constants.
        handles: debug handles of every operation, by "output:operator".
    """

    spec: Any
    weights: Path
    handles: dict[str, list[int]]

    @property
    def operations(self) -> list[Any]:
        function = self.spec.mlProgram.functions["main"]
        return list(function.block_specializations[function.opset].operations)

    @property
    def outputs(self) -> list[str]:
        function = self.spec.mlProgram.functions["main"]
        return list(function.block_specializations[function.opset].outputs)

    @property
    def states(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the states."""
        return {
            state.name: tuple(state.type.stateType.arrayType.shape)
            for state in self.spec.description.state
        }

    def value(self, value: Any) -> np.ndarray | str:
        """A constant's value; 4-bit integers one to a byte."""
        tensor = value.type.tensorType
        shape = tuple(size.constant.size for size in tensor.dimensions)
        if value.HasField("blobFileValue"):
            assert value.blobFileValue.fileName == "@model_path/weights/weight.bin"
            reader = _BlobStorageReader(str(self.weights))
            data = getattr(reader, _BLOBS[tensor.dataType])(value.blobFileValue.offset)
            if tensor.dataType == MIL_pb2.DataType.FLOAT16:
                return np.array(data, np.uint16).view(np.float16).reshape(shape)
            return np.array(data, DTYPES[tensor.dataType]).reshape(shape)
        kind = value.immediateValue.tensor.WhichOneof("value")
        values = getattr(value.immediateValue.tensor, kind).values
        if kind == "strings":
            return values[0]
        if kind == "bytes":
            return np.frombuffer(values, DTYPES[tensor.dataType]).reshape(shape)
        return np.array(values, DTYPES[tensor.dataType]).reshape(shape)


def read_core_ml(pte: Path, directory: Path) -> CoreMLProgram:
    """Unpacks the one Core ML model of a `.pte` into `directory`, which must be empty."""
    program = deserialize_pte_binary(pte.read_bytes()).program
    (delegate,) = program.execution_plan[0].delegates
    assert delegate.id == "CoreMLBackend"
    blob = program.backend_delegate_data[delegate.processed.index].data
    directory.mkdir(exist_ok=True)
    assert executorchcoreml.unflatten_directory_contents(blob, str(directory))
    model = directory / "lowered_module"
    data = model / "model.mlpackage" / "Data" / "com.apple.CoreML"
    spec = Model_pb2.Model()
    spec.ParseFromString((data / "model.mlmodel").read_bytes())
    handles = json.loads((model / "debug_info.json").read_text())["debugSymbolToHandles"]
    return CoreMLProgram(spec, data / "weights" / "weight.bin", handles)
