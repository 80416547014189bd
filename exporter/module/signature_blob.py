"""Writes the signatures of a file's methods: schemas/signature.fbs."""

from collections.abc import Callable, Sequence

import flatbuffers

from exporter.module.signature import Signature, Size, TensorSpec

SIGNATURE = "thimble.signature"
_IDENTIFIER = b"THSG"
_VERSION = 1


def signature_blob(signatures: Sequence[Signature]) -> bytes:
    builder = flatbuffers.Builder(1024)
    methods = _vector(builder, [_method(builder, signature) for signature in signatures])
    builder.StartObject(2)
    builder.PrependUint32Slot(0, _VERSION, 0)
    builder.PrependUOffsetTRelativeSlot(1, methods, 0)
    builder.Finish(builder.EndObject(), file_identifier=_IDENTIFIER)
    return bytes(builder.Output())


def _method(builder: flatbuffers.Builder, signature: Signature) -> int:
    name = builder.CreateString(signature.name)
    inputs = _vector(builder, [_tensor(builder, spec) for spec in signature.inputs])
    outputs = _vector(builder, [_tensor(builder, spec) for spec in signature.outputs])
    state = _vector(builder, [builder.CreateString(spec) for spec in signature.state])
    builder.StartObject(4)
    for slot, offset in enumerate((name, inputs, outputs, state)):
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    return int(builder.EndObject())


def _tensor(builder: flatbuffers.Builder, tensor: TensorSpec) -> int:
    name, type = builder.CreateString(tensor.name), builder.CreateString(tensor.type)
    sizes = _vector(builder, [_size(builder, size) for size in tensor.sizes])
    hides_nan = builder.CreateString(tensor.hides_nan)
    builder.StartObject(4)
    for slot, offset in enumerate((name, type, sizes, hides_nan)):
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    return int(builder.EndObject())


def _size(builder: flatbuffers.Builder, size: Size) -> int:
    symbol = builder.CreateString(size.symbol)
    builder.StartObject(5)
    builder.PrependInt64Slot(0, size.least, 0)
    builder.PrependInt64Slot(1, size.most, 0)
    builder.PrependUOffsetTRelativeSlot(2, symbol, 0)
    builder.PrependInt64Slot(3, size.factor, 1)
    builder.PrependInt64Slot(4, size.offset, 0)
    return int(builder.EndObject())


def _vector(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    prepend: Callable[[int], None] = builder.PrependUOffsetTRelative
    for offset in reversed(offsets):
        prepend(offset)
    return int(builder.EndVector())
