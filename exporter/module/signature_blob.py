"""Writes the signatures of a file's methods: schemas/signature.fbs."""

from collections.abc import Sequence

import flatbuffers

from exporter.file.flatbuffer_tables import Number, table, tables
from exporter.module.signature import Signature, Size, TensorSpec

SIGNATURE = "thimble.signature"
_IDENTIFIER = b"THSG"
_VERSION = 1


def signature_blob(signatures: Sequence[Signature]) -> bytes:
    builder = flatbuffers.Builder(1024)
    methods = tables(builder, [_method(builder, signature) for signature in signatures])
    root = table(builder, Number("Uint32", _VERSION), methods)
    builder.Finish(root, file_identifier=_IDENTIFIER)
    return bytes(builder.Output())


def _method(builder: flatbuffers.Builder, signature: Signature) -> int:
    return table(
        builder,
        builder.CreateString(signature.name),
        tables(builder, [_tensor(builder, spec) for spec in signature.inputs]),
        tables(builder, [_tensor(builder, spec) for spec in signature.outputs]),
        tables(builder, [builder.CreateString(spec) for spec in signature.state]),
    )


def _tensor(builder: flatbuffers.Builder, tensor: TensorSpec) -> int:
    return table(
        builder,
        builder.CreateString(tensor.name),
        builder.CreateString(tensor.type),
        tables(builder, [_size(builder, size) for size in tensor.sizes]),
        builder.CreateString(tensor.hides_nan),
    )


def _size(builder: flatbuffers.Builder, size: Size) -> int:
    return table(
        builder,
        Number("Int64", size.least),
        Number("Int64", size.most),
        builder.CreateString(size.symbol),
        Number("Int64", size.factor, 1),
        Number("Int64", size.offset),
    )
