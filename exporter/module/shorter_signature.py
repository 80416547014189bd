"""The signature of a program that also runs on fewer rows than it was captured with."""

from dataclasses import replace

import torch
from torch.utils._pytree import tree_leaves

from exporter.module.signature import Signature, Size, TensorSpec
from exporter.module.source import Made


@torch.no_grad()
def with_shorter(signature: Signature, made: Made) -> Signature:
    """The signature of a program whose fixed shapes are those of the longest sample."""
    shorter = made.shorter
    if shorter is None:
        return signature
    names = shorter.among(one.name for one in signature.inputs)
    inputs = [
        _ranged(one, 1, shorter.least, shorter.symbol) if one.name in names else one
        for one in signature.inputs
    ]
    leaves = [
        leaf[:, : shorter.least] if one.name in names else leaf
        for one, leaf in zip(signature.inputs, made.inputs.leaves(), strict=True)
    ]
    smallest = tree_leaves(made.inputs.with_leaves(leaves).call(made.module))
    outputs = []
    for one, value in zip(signature.outputs, smallest, strict=True):
        for dim, size in enumerate(value.shape):
            one = one if size == one.sizes[dim].most else _ranged(one, dim, size, "")
        outputs.append(one)
    return replace(signature, inputs=tuple(inputs), outputs=tuple(outputs))


def _ranged(spec: TensorSpec, dim: int, least: int, symbol: str) -> TensorSpec:
    size = Size(least, spec.sizes[dim].most, symbol)
    return replace(spec, sizes=(*spec.sizes[:dim], size, *spec.sizes[dim + 1 :]))
