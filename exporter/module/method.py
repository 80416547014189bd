"""The methods of a module's export: each a captured module, and what its file is compared with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import Tensor
from torch.export import ExportedProgram

from delegates import DelegateError, DelegationReport
from delegates.passes.shorter import mark_shorter
from exporter.errors import ExportError
from exporter.module.agreement import ModuleAgreement, compare, hides_nan, references
from exporter.module.capture import (
    capture_module,
    check_nothing_is_random,
    check_outputs_are_tensors,
    check_sizes_are_bounded,
    run_eagerly,
)
from exporter.module.losses import nan_loss
from exporter.module.quantize import Quantized
from exporter.module.rounding import without_rounding
from exporter.module.samples import Sample, samples
from exporter.module.shorter_signature import with_shorter
from exporter.module.signature import Signature, signature_of
from exporter.module.source import Made
from quant.errors import QuantError
from quant.modules import has_integers

REASON_BYTES = 256  # that a signature may grow by for each input
Outputs = Sequence[Sequence[Sequence[Tensor]]]


@dataclass(frozen=True)
class Method:
    """A method before it is lowered.

    Attributes:
        program: to be lowered: in float, or with integers.
        quantized: None in float.
    """

    made: Made
    program: ExportedProgram
    signature: Signature
    quantized: Quantized | None = None


@dataclass(frozen=True)
class MethodResult:
    """A method of the written file, and the facts about it."""

    signature: Signature
    delegation: DelegationReport
    agreement: ModuleAgreement | None
    quantized: Quantized | None


def capture_method(name: str, made: Made) -> Method:
    """
    Raises:
        ExportError: with the sentence to show.
    """
    run_eagerly(made)
    return capture_known(name, made)


def capture_known(name: str, made: Made) -> Method:
    """Captures a module of which it is known that it computes its example.

    Raises:
        ExportError: with the sentence to show.
    """
    program = capture_module(made)
    check_outputs_are_tensors(program)
    check_nothing_is_random(program)
    check_sizes_are_bounded(program, made.dynamic_shapes)
    signature = signature_of(name, program, made)
    if made.shorter is not None:
        mark_shorter(program, made.shorter.among(one.name for one in signature.inputs))
    return Method(made, program, with_shorter(signature, made))


def with_integers(method: Method, quantized: Quantized) -> Method:
    return replace(method, program=quantized.program, quantized=quantized)


def expected_outputs(method: Method, tried: Sequence[Sample]) -> Outputs:
    """Returns what the module computes, with its integers, on each sample.

    Raises:
        ExportError: it fails; the sentence has its line.
    """
    run = method.made.module if method.quantized is None else method.quantized.run
    return [references(run, run, sample) for sample in tried]


def samples_of(method: Method) -> list[Sample]:
    return samples(method.made, method.signature)


def check_method(
    method: Method,
    tried: Sequence[Sample],
    expected: Outputs,
    delegation: DelegationReport,
    open_file: Callable[[], Any],
) -> MethodResult:
    """Compares a method of the file with its module, if this machine runs it.

    Args:
        open_file: opens the file (contract.ModuleRun); None if this machine cannot run it.

    Raises:
        ExportError: it cannot run, or a number differs by more than rounding.
    """
    signature, agreement = method.signature, None
    if open_file() is not None:

        def open_method() -> Callable[[Sequence[Tensor]], Sequence[Tensor]]:
            return partial(open_file(), method=signature.name)

        integers = method.quantized is not None or has_integers(method.made.module)
        exact = partial(without_rounding, method.made.module, method.quantized is None)
        agreement = compare(open_method, tried, expected, signature, integers, exact)
        if method.made.refuses_nan:
            signature = _with_losses(method, open_method)
    return MethodResult(signature, delegation, agreement, method.quantized)


def _with_losses(method: Method, open_method: Callable[[], Any]) -> Signature:
    """Notes the inputs in which the file would lose a NaN."""
    inputs = list(method.signature.inputs)
    for index, leaf in enumerate(method.made.inputs.leaves()):
        if not leaf.is_floating_point() or not leaf.numel():
            continue
        if hides_nan(open_method, method.made, index):
            reason = nan_loss(method.program, inputs[index].name).encode()[:REASON_BYTES]
            inputs[index] = replace(inputs[index], hides_nan=reason.decode(errors="ignore"))
    return replace(method.signature, inputs=tuple(inputs))


@contextmanager
def naming(name: str, methods: Mapping[str, object]) -> Iterator[None]:
    """Begins the sentence of an error with the method, where there are several."""
    try:
        yield
    except (ExportError, DelegateError, QuantError) as error:
        if len(methods) == 1:
            raise
        raise type(error)(f"Method {name}: {error}") from error
