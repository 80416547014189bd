"""From a checkpoint to a `.pte`: the complete export, in order."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from delegates import DelegationReport, Limits, get_delegate, load_program
from delegates.spill import spilling_to
from exporter.capture.program import capture, check_lengths
from exporter.catalogue.find import find_checkpoint
from exporter.checkpoint import Checkpoint
from exporter.file.agreement import (
    Agreement,
    Reference,
    compare,
    reference_logits,
    require_agreement,
)
from exporter.file.etrecord import name_program, save_etrecord, weights_crc32
from exporter.file.pte import REPORT, encode_report, seal
from exporter.file.replacing import check_outputs, replacing
from exporter.listener import SILENT, Listener
from exporter.models.decoder import CausalLM
from exporter.models.low_rank import attach
from exporter.options import DEFAULT_CONTEXT, ExportOptions
from exporter.plan.cache_type import as_cached, cached_bytes
from exporter.plan.file_size import require_room, room_to_leave
from exporter.plan.kept_integers import keeping, require_keepable
from exporter.plan.memory import plan_memory
from exporter.plan.requirements import require_supported
from exporter.plan.widths import choose_default_widths, require_size, storage_of, within_budget
from exporter.text.calibration import with_own_text
from exporter.text.prepare import Text, prepare_text
from quant.cache.store import Cache, default_size
from quant.machine.freed_memory import return_freed_memory, reusing_freed_memory
from quant.machine.resources import DEFAULTS, Resources
from quant.measure.windows import WINDOW
from quant.quantize import quantize
from quant.report import QuantReport
from quant.scheme import KEEP, Scheme

NOT_RUN = "not run here"  # the file: nothing on this machine runs its delegate


@dataclass(frozen=True)
class ExportResult:
    """The written file and the facts about it."""

    out: Path
    size: int
    report: dict[str, Any]
    quantization: QuantReport
    delegation: DelegationReport
    agreement: Agreement | None


def export_model(options: ExportOptions, listener: Listener = SILENT) -> ExportResult:
    """Writes options.out, and options.etrecord if set; on failure neither is changed.

    Raises:
        ExportError, QuantError, TokenizerError, DelegateError: with the sentence to show.
    """
    delegate = get_delegate(options.delegate)
    options = replace(options, scheme=_scheme_for(delegate.LIMITS, options.scheme, listener))
    check_outputs(options.out, options.etrecord, options.inputs)
    require_keepable(options)
    with (
        replacing(options.out) as temporary,
        replacing(options.etrecord) as etrecord,
        reusing_freed_memory(options.max_memory),
    ):
        checkpoint = find_checkpoint(options, listener)
        options = replace(options, scheme=keeping(options.scheme, checkpoint, listener))
        text = prepare_text(options, checkpoint, listener)
        if text.template_fault:
            listener.note(
                "The runner's --chat will refuse this model, whose chat template is kept as text "
                f"only: {text.template_fault}"
            )
        if text.evaluation is None:
            listener.note(
                "Quality is not measured: the tokenizer makes too few tokens of the built-in text; "
                "to measure it, name a text of the model's own kind with --calibration."
            )
        context, seq_len = context_lengths(options, checkpoint)
        require_supported(options, checkpoint, delegate.LIMITS, context, seq_len)
        facts = delegate.LIMITS, checkpoint, text, context
        size = require_room(options, *facts)
        if options.has_budget:
            options = within_budget(options, *facts, listener, _cache(options, listener, size))
            size = require_room(options, *facts)
        spill = plan_memory(options, checkpoint, text, size, listener)
        cache = _cache(options, listener, size)
        if options.mixed and not options.has_budget:
            options = choose_default_widths(
                options, delegate.LIMITS, checkpoint, text, listener, cache
            )
        text = with_own_text(options, checkpoint, text, cache, listener)
        resources = Resources(cache, spill=spill, device=options.device)
        model, quantization = load_quantized(options, checkpoint, text, listener, resources)

        listener.stage("capture")
        return_freed_memory()
        quantized = options.scheme.name != "none"
        sample = _sample(text, checkpoint.config.vocab_size)[:context]
        reference = reference_logits(model, sample, seq_len, quantized, spill.release)
        attach(model, checkpoint.adapters)
        program = capture(model, context, seq_len)
        int8_heads = any(mixer.int8 for mixer in model.config.attentions)
        del model  # the program now holds the weights, and lowering releases them
        listener.stage("lower")
        methods = constant_methods(checkpoint, text, context, seq_len)
        report = describe(options, checkpoint, text, quantization, context, seq_len, int8_heads)
        blobs = {**text.blobs, REPORT: encode_report(report)}
        spill.release()
        return_freed_memory()
        with spilling_to(spill.directory):
            lowered = delegate.lower(program, methods, blobs, etrecord is not None)

        listener.stage("write")
        with open(temporary, "wb") as file:
            lowered.program.write_to_file(file)
        if lowered.etrecord is not None and etrecord is not None:
            save_etrecord(lowered.etrecord, etrecord)
            report["etrecord"] = {"weights_crc32": weights_crc32(etrecord)}
        delegation = lowered.report
        del lowered, program  # the file is complete; the check needs the memory
        spill.release()
        return_freed_memory()

        listener.stage("check")
        agreement = check(delegation, temporary, reference)
        report["delegation"] = delegation.to_dict()
        report["agreement"] = agreement.to_dict() if agreement else {"checked": NOT_RUN}
        fingerprint = seal(temporary, report)
        if "etrecord" in report and etrecord is not None:
            name_program(etrecord, fingerprint)
        require_size(options, temporary)
    return ExportResult(
        options.out, options.out.stat().st_size, report, quantization, delegation, agreement
    )


def scheme_for_delegate(limits: Limits, scheme: Scheme) -> Scheme:
    """The scheme with int8 as the delegate stores it: in groups, or with one scale a row."""
    in_rows = scheme.name == "rtn8" and not limits.int8_groups
    return replace(scheme, whole_rows=True) if in_rows else scheme


def _scheme_for(limits: Limits, scheme: Scheme, listener: Listener) -> Scheme:
    """The scheme as a delegate can store it."""
    scheme = scheme_for_delegate(limits, scheme)
    method = scheme.choice
    if limits.rotates or scheme.name == "none" or method.rotation != "inputs":
        return scheme
    listener.note(
        f"{limits.name} cannot rotate the inputs of linears at run time, so the weights are chosen "
        "without rotation; --delegate cpu can, and loses less quality."
    )
    return replace(scheme, method=replace(method, rotation="none"))


def load_quantized(
    options: ExportOptions,
    checkpoint: Checkpoint,
    text: Text,
    listener: Listener,
    resources: Resources = DEFAULTS,
) -> tuple[CausalLM, QuantReport]:
    """Returns the model with quantized weights, streamed from the checkpoint.

    If `resources` has no cache, the options' cache is used.
    """
    context, _ = context_lengths(options, checkpoint)
    limits = get_delegate(options.delegate).LIMITS
    spec = checkpoint.config.for_context(context)
    item_bytes = cached_bytes(spec, options.scheme, limits)
    with torch.device("meta"):
        model = CausalLM(as_cached(spec, item_bytes))
    checkpoint.check(model)
    listener.stage("load" if options.scheme.name == "none" else "quantize")
    cache = resources.cache or _cache(options, listener)
    report = quantize(
        model,
        options.scheme,
        checkpoint,
        text.calibration,
        text.evaluation,
        listener.progress,
        replace(resources, cache=cache, name=checkpoint.name),
        storage_of(limits),
    )
    if report.rare_experts:
        listener.note(
            f"The calibration text gave too few tokens to {len(report.rare_experts)} of "
            f"{report.experts} experts; their weights are rounded to nearest. The report names "
            "them; more --calibration-tokens may reach them."
        )
    return model, report


def _cache(options: ExportOptions, listener: Listener, file_size: int = 0) -> Cache | None:
    """Returns the options' cache, which leaves room for the file."""
    if options.cache is None:
        return None
    room = room_to_leave(options.cache, options.out, file_size)
    return Cache(options.cache, default_size(), listener.note, room)


def context_lengths(options: ExportOptions, checkpoint: Checkpoint) -> tuple[int, int]:
    """Returns max_context_len and max_seq_len, with defaults filled in.

    Raises:
        ExportError: they do not fit each other or the model.
    """
    default = min(DEFAULT_CONTEXT, checkpoint.config.context_limit)
    context = default if options.max_context_len is None else options.max_context_len
    seq_len = context if options.max_seq_len is None else options.max_seq_len
    check_lengths(checkpoint.config, context, seq_len)
    return context, seq_len


def constant_methods(
    checkpoint: Checkpoint, text: Text, max_context_len: int, max_seq_len: int
) -> dict[str, object]:
    """Returns the facts that a runtime reads from the program, by stock ExecuTorch's names."""
    methods: dict[str, object] = {
        "get_max_seq_len": max_seq_len,
        "get_max_context_len": max_context_len,
        "enable_dynamic_shape": max_seq_len > 1,
        "get_vocab_size": checkpoint.config.vocab_size,
        "use_kv_cache": True,
        "use_sdpa_with_kv_cache": True,
    }
    if text.bos_id is not None:
        methods["get_bos_id"] = text.bos_id
    if text.eos_ids:
        methods["get_eos_ids"] = list(text.eos_ids)
    return methods


def describe(
    options: ExportOptions,
    checkpoint: Checkpoint,
    text: Text,
    quantization: QuantReport,
    max_context_len: int,
    max_seq_len: int,
    int8_heads: bool,
) -> dict[str, Any]:
    """Returns the report in the file: the model, and the results of quantization."""
    config = checkpoint.config
    quality = quantization.quality
    return {
        "model": {
            "name": checkpoint.name,
            "adapter": options.adapter,
            **({"adapters": listed} if (listed := _adapters(checkpoint)) else {}),
            "model_type": config.model_type,
            "parameters": quantization.size.weights,
            **config.dimensions(),
            "max_context_len": max_context_len,
            "max_seq_len": max_seq_len,
            "bos_id": text.bos_id,
            "eos_ids": list(text.eos_ids),
            "chat_template": text.chat_template,
            **({"left_out": dict(checkpoint.left_out)} if checkpoint.left_out else {}),
        },
        "quantization": {
            "scheme": quantization.scheme,
            "group_size": options.scheme.largest_group,
            "head_bits": quantization.head_bits,
            "bits": quantization.widths,
            "method": quantization.method,
            "int8_heads": int8_heads,
            "bits_per_weight": quantization.size.bits_per_weight,
            "linear_bits_per_weight": quantization.size.linear_bits_per_weight,
            "embedding_bytes": quantization.size.embedding,
            **({"layer_input_bytes": outer} if (outer := quantization.size.outer) else {}),
            **({"compared_with": "the weights dequantized"} if options.scheme.name == KEEP else {}),
            "calibration_tokens": quantization.calibration_tokens,
            **({"experts": _experts(quantization)} if quantization.experts else {}),
        },
        "text": {
            "name": text.source,
            "sha256": text.sha256,
            "calibration_tokens": 0 if text.calibration is None else text.calibration.numel(),
            "held_out_tokens": 0 if text.evaluation is None else text.evaluation.numel(),
        },
        "quality": quality.to_dict() if quality else None,
    }


def _experts(quantization: QuantReport) -> dict[str, Any]:
    """Returns the number of experts, and those to which the calibration text gave too few
    tokens."""
    return {"count": quantization.experts, "rare": list(quantization.rare_experts)}


def _adapters(checkpoint: Checkpoint) -> list[dict[str, Any]]:
    """Returns the facts about the adapters that are kept apart."""
    return [
        {
            "name": each.name,
            "source": each.source,
            "ranks": each.ranks,
            "linears": len(each.pairs),
            "bytes": each.bytes,
        }
        for each in checkpoint.adapters
    ]


def _sample(text: Text, vocab_size: int) -> Tensor:
    """The tokens on which the file and the model are compared: held-out ones, or random ones."""
    if text.evaluation is not None:
        return text.evaluation[0]
    return torch.randint(vocab_size, (WINDOW,), generator=torch.Generator().manual_seed(0))


def check(delegation: DelegationReport, path: Path, reference: Reference) -> Agreement | None:
    """Compares the finished file with the eager model; None if this machine cannot run it.

    Raises:
        ExportError: they do not agree.
    """
    step = load_program(delegation, path)
    if step is None:
        return None
    agreement = compare(reference, step)
    require_agreement(agreement)
    return agreement
