"""From a checkpoint to a `.pte`: the complete export, in order."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from delegates import check_delegate, get_delegate, load_program
from delegates.methods import FORWARD, check_takes_methods
from delegates.spill import spilling_to
from exporter.capture.lean_imports import import_compilers
from exporter.capture.part_signatures import part_signatures
from exporter.file.agreement import (
    Agreement,
    Reference,
    compare,
    reference_logits,
    require_agreement,
)
from exporter.file.pte import REPORT, encode_report
from exporter.file.replacing import check_outputs, replacing
from exporter.file.report import NOT_RUN, Report, constant_methods, describe
from exporter.file.shared_weights import share_weights
from exporter.file.writing import seal_files, write_program
from exporter.listener import SILENT, Listener
from exporter.models.decoder import CausalLM
from exporter.models.low_rank import attach
from exporter.models.text_decoder import TEXT_DECODER, TOKEN_EMBEDDING
from exporter.module.signature_blob import SIGNATURE, signature_blob
from exporter.options import ExportOptions
from exporter.plan.cache_type import as_cached
from exporter.plan.plan import Plan, empty_model
from exporter.plan.planning import plan_export
from exporter.plan.widths import require_size, storage_of
from exporter.seeing.picture_blob import PICTURE
from exporter.seeing.sight import VISION_ENCODER, Sight
from quant.machine.freed_memory import return_freed_memory, reusing_freed_memory
from quant.measure.windows import WINDOW
from quant.quantize import quantize
from quant.report import QuantReport

if TYPE_CHECKING:  # what captures and lowers takes seconds to import, and waits until it is needed
    from torch.export import ExportedProgram

    from delegates import DelegationReport, Lowered
    from exporter.seeing.method import CapturedSight


@dataclass(frozen=True)
class ExportResult:
    """The written file and the facts about it."""

    out: Path
    size: int
    report: Report
    quantization: QuantReport
    delegation: "DelegationReport"
    agreement: Agreement | None


def export_model(options: ExportOptions, listener: Listener = SILENT) -> ExportResult:
    """Writes options.out, and options.etrecord if set; on failure neither is changed.

    Raises:
        ExportError, QuantError, TokenizerError, DelegateError: with the sentence to show.
    """
    check_delegate(options.delegate)
    if options.parts:
        check_takes_methods(options.delegate, get_delegate(options.delegate))
    check_outputs(options.out, options.etrecord, options.inputs)
    with (
        replacing(options.out) as temporary,
        replacing(options.etrecord) as etrecord,
        reusing_freed_memory(options.max_memory),
    ):
        plan = plan_export(options, listener)
        model, quantization = load_quantized(plan, listener)
        listener.stage("capture")
        import_compilers()
        programs, reference = _captured(plan, model)
        sight = None if plan.sight is None else _captured_sight(plan, plan.sight, listener)
        del model  # the programs now hold the weights, and lowering releases them
        report = describe(plan, quantization)
        listener.stage("lower")
        lowered = _lowered(plan, programs, sight, report, etrecord is not None)
        listener.stage("write")
        write_program(lowered, temporary, etrecord)
        delegation, delegations = lowered.reports[FORWARD], lowered.reports
        del lowered, programs  # the file is complete; the check needs the memory
        if plan.has_parts:
            share_weights(temporary)
        _release(plan)
        listener.stage("check")
        row_size = plan.row_size if plan.has_parts else None
        agreement = check(delegation, temporary, reference, row_size)
        report["delegation"] = delegation.to_dict()
        report["agreement"] = agreement.to_dict() if agreement else {"checked": NOT_RUN}
        if sight is not None:
            report["vision"] = sight.check(delegations[VISION_ENCODER], temporary)
        seal_files(report, temporary, etrecord)
        require_size(options, temporary)
    return ExportResult(
        options.out, options.out.stat().st_size, report, quantization, delegation, agreement
    )


def load_quantized(plan: Plan, listener: Listener) -> tuple[CausalLM, QuantReport]:
    """Returns the model with quantized weights, streamed from the checkpoint."""
    model = empty_model(as_cached(plan.spec, plan.item_bytes))
    plan.checkpoint.check(model)
    listener.stage("load" if plan.scheme.name == "none" else "quantize")
    report = quantize(
        model,
        plan.scheme,
        plan.checkpoint,
        plan.text.calibration,
        plan.text.evaluation,
        listener.progress,
        plan.resources,
        storage_of(plan.limits),
        plan.importance,
    )
    if report.rare_experts:
        listener.note(
            f"The calibration text gave too few tokens to {len(report.rare_experts)} of "
            f"{report.experts} experts; their weights are rounded to nearest. The report names "
            "them; more --calibration-tokens may reach them."
        )
    return model, report


def _captured(plan: Plan, model: CausalLM) -> "tuple[dict[str, ExportedProgram], Reference]":
    """Returns the model's program, those of its parts if asked for, and what the model computes."""
    from exporter.capture.program import capture, capture_parts

    return_freed_memory()
    quantized, release = plan.scheme.name != "none", plan.resources.spill.release
    reference = reference_logits(model, _sample(plan), plan.max_seq_len, quantized, release)
    attach(model, plan.checkpoint.adapters)
    lengths = plan.max_context_len, plan.max_seq_len
    if plan.has_parts:
        return capture_parts(model, *lengths, plan.row_size), reference
    return {FORWARD: capture(model, *lengths)}, reference


def _captured_sight(plan: Plan, sight: Sight, listener: Listener) -> "CapturedSight":
    from exporter.seeing.method import capture_sight  # here: it imports what captures

    return capture_sight(sight, plan.options.delegate, listener)


def _lowered(
    plan: Plan,
    programs: "Mapping[str, ExportedProgram]",
    sight: "CapturedSight | None",
    report: Report,
    with_etrecord: bool,
) -> "Lowered":
    blobs = {**plan.text.blobs, REPORT: encode_report(report)}
    constants = constant_methods(plan)
    _release(plan)
    with spilling_to(plan.resources.spill.directory):
        delegate: Any = plan.delegate
        if not plan.has_parts:
            lowered: Lowered = delegate.lower(programs[FORWARD], constants, blobs, with_etrecord)
            return lowered
        signatures = part_signatures(plan.checkpoint.config, plan.max_seq_len, plan.row_size)
        modules = {}
        if sight is not None:
            signatures.append(sight.method.signature)
            if plan.reads_pictures:
                blobs[PICTURE] = sight.blob(plan.text)
            modules["modules"] = {VISION_ENCODER: sight.lower(with_etrecord)}
        blobs[SIGNATURE] = signature_blob(signatures)
        lowered = delegate.lower_methods(programs, constants, blobs, with_etrecord, **modules)
        return lowered


def _release(plan: Plan) -> None:
    """Gives back the memory of what is not used any more."""
    plan.resources.spill.release()
    return_freed_memory()


def _sample(plan: Plan) -> Tensor:
    """The tokens on which the file and the model are compared: held-out ones, or random ones."""
    if plan.text.evaluation is not None:
        return plan.text.evaluation[0][: plan.max_context_len]
    vocab_size, generator = plan.checkpoint.config.vocab_size, torch.Generator().manual_seed(0)
    return torch.randint(vocab_size, (WINDOW,), generator=generator)[: plan.max_context_len]


def check(
    delegation: "DelegationReport", path: Path, reference: Reference, row_size: int | None = None
) -> Agreement | None:
    """Compares the finished file with the eager model; None if this machine cannot run it.

    Args:
        row_size: numbers of a row that the second of the model's two parts reads, if the file has
            these, which are compared too.

    Raises:
        ExportError: they do not agree.
    """
    step = load_program(delegation, path)
    if step is None:
        return None
    agreement = compare(reference, step)
    require_agreement(agreement)
    if row_size is not None:
        from delegates.executorch_runtime import open_parts

        step = open_parts(path, TOKEN_EMBEDDING, TEXT_DECODER, row_size)
        require_agreement(compare(reference, step))
    return agreement
