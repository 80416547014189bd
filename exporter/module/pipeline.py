"""From a user's module to a `.pte`: the complete export, in order."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch.export import ExportedProgram

from delegates import DelegationReport, get_delegates
from delegates.module import (
    check_takes_modules,
    load_module,
    lower_module,
    takes_integer_convolutions,
)
from exporter.file.pte import REPORT, encode_report, replace_blob
from exporter.file.replacing import check_outputs, replacing
from exporter.file.report import NOT_RUN, Report
from exporter.file.writing import seal_files, write_program
from exporter.listener import SILENT, Listener
from exporter.module.agreement import ModuleAgreement, compare, hides_nan, references
from exporter.module.capture import capture_module, check_outputs_are_tensors, run_eagerly
from exporter.module.losses import nan_loss
from exporter.module.options import ModuleOptions
from exporter.module.quantize import Quantized, quantize_made
from exporter.module.samples import samples
from exporter.module.signature import Signature, signature_of
from exporter.module.signature_blob import SIGNATURE, signature_blob
from exporter.module.source import Made, make_module

_REASON_BYTES = 256  # that the signature may grow by for each input


@dataclass(frozen=True)
class ModuleResult:
    """The written file and the facts about it."""

    out: Path
    size: int
    report: Report
    signature: Signature
    delegation: DelegationReport
    agreement: ModuleAgreement | None
    quantized: Quantized | None


def export_module(options: ModuleOptions, listener: Listener = SILENT) -> ModuleResult:
    """Writes options.out, and options.etrecord if set; on failure neither is changed.

    Raises:
        ExportError, QuantError, DelegateError: with the sentence to show.
    """
    delegates = get_delegates(options.delegate)
    check_takes_modules(delegates)
    check_outputs(options.out, options.etrecord, [options.source.path])
    with replacing(options.out) as temporary, replacing(options.etrecord) as etrecord:
        listener.stage("capture")
        made = make_module(options.source)
        run_eagerly(made)
        program = capture_module(made)
        check_outputs_are_tensors(program)
        signature = signature_of(program, made)
        tried = samples(made, signature)
        report, run = _describe(options, made, signature), made.module
        quantized = None
        if options.quant != "none":
            listener.stage("quantize")
            whole = takes_integer_convolutions(delegates)
            quantized = quantize_made(
                made, program, options.quant, options.group_size, listener, whole
            )
            program, run = quantized.program, quantized.run
            report["quantization"] = quantized.report
        expected = [references(run, run, sample) for sample in tried]
        listener.stage("lower")
        blobs = {SIGNATURE: _reserved(signature), REPORT: encode_report(report)}
        lowered = lower_module(delegates, program, blobs, etrecord is not None)
        delegation = lowered.report
        listener.stage("write")
        write_program(lowered, report, temporary, etrecord)
        del lowered
        listener.stage("check")
        open_file = partial(load_module, delegates, delegation.users, temporary)
        agreement = None
        if open_file() is not None:
            agreement = compare(open_file, tried, expected, signature, quantized is not None)
            signature = _with_losses(signature, program, made, open_file)
        replace_blob(temporary, SIGNATURE, signature_blob(signature))
        report["delegation"] = delegation.to_dict()
        report["agreement"] = agreement.to_dict() if agreement else {"checked": NOT_RUN}
        seal_files(report, temporary, etrecord)
    return ModuleResult(
        options.out,
        options.out.stat().st_size,
        report,
        signature,
        delegation,
        agreement,
        quantized,
    )


def _with_losses(
    signature: Signature, program: ExportedProgram, made: Made, open_file: Any
) -> Signature:
    """Notes the inputs in which the file would lose a NaN."""
    inputs = list(signature.inputs)
    for index, leaf in enumerate(made.inputs.leaves()):
        if leaf.is_floating_point() and leaf.numel() and hides_nan(open_file, made, index):
            reason = nan_loss(program, inputs[index].name).encode()[:_REASON_BYTES]
            inputs[index] = replace(inputs[index], hides_nan=reason.decode(errors="ignore"))
    return replace(signature, inputs=tuple(inputs))


def _reserved(signature: Signature) -> bytes:
    """The signature with room for what is known once the file has run."""
    blob = signature_blob(signature)
    return blob.ljust(len(blob) + _REASON_BYTES * (1 + len(signature.inputs)), b"\0")


def _describe(options: ModuleOptions, made: Made, signature: Signature) -> Report:
    """Returns the report in the file."""
    parameters = sum(one.numel() for one in made.module.parameters())
    return {
        "module": {
            "source": str(options.source),
            "class": type(made.module).__name__,
            "parameters": parameters,
            "quant": options.quant,
            "state": list(signature.state),
        },
        "signature": {
            part: [
                {
                    "name": one.name,
                    "type": one.type,
                    "shape": f"({', '.join(map(str, one.sizes))})",
                }
                for one in specs
            ]
            for part, specs in (("inputs", signature.inputs), ("outputs", signature.outputs))
        },
    }
