"""The export command: checks the options, shows progress, prints a summary."""

import resource
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from delegates import check_installed
from exporter.catalogue.adapters import split_adapters
from exporter.chat_template import require_chat_template
from exporter.command_line.quiet import silence_known_noise
from exporter.commands.checks import (
    check_config,
    check_file,
    check_files,
    check_source,
    check_vision,
    check_weights,
)
from exporter.commands.request import Request
from exporter.commands.summary import megabytes, show_kernels, show_unchecked, summarize
from exporter.commands.working import checking, importing, working
from exporter.errors import ExportError
from exporter.plan.given_lengths import check_given_lengths
from exporter.tokenizer.source import find_tokenizer
from quant.budget.bounds import require_spreadable
from quant.measure.format_numbers import with_error

if TYPE_CHECKING:
    from delegates import DelegationReport
    from exporter.pipeline import ExportResult

_LEAST_SHARE = 0.0001  # below it, Python would write an exponent


def run_export(request: Request, out: Path) -> None:
    """Runs one export to `out` and prints a summary.

    Exits with 2 if the request is not possible, which is detected before any stage begins; with 1
    if the work failed. In both cases, and on an interrupt, no file is changed.
    """
    started = time.monotonic()
    _check(request, out)
    silence_known_noise()
    with importing():
        from exporter.options import ExportOptions
        from exporter.pipeline import export_model
        from quant.cache.place import default_directory
        from quant.machine.device import find_device
        from quant.machine.memory_size import parse_size
        from quant.scheme import mixes_by_default

    with working() as display:
        adapter, adapters = split_adapters(request.adapter)
        options = ExportOptions(
            model=request.model,
            out=out,
            checkpoint=request.checkpoint,
            adapter=adapter,
            adapters=adapters,
            tokenizer=request.tokenizer,
            chat_template=request.chat_template,
            scheme=request.chosen_scheme(),
            mixed=mixes_by_default(request.scheme, request.head_bits),
            bits=request.bits,
            max_size=None
            if request.max_size is None
            else parse_size(request.max_size, "--max-size"),
            calibration=request.calibration,
            calibration_tokens=request.calibration_tokens,
            imatrix=request.imatrix,
            max_context_len=request.max_context_len,
            max_seq_len=request.max_seq_len,
            delegate=request.delegate,
            vision=not request.no_vision,
            vision_scheme=request.chosen_vision_scheme(),
            calibration_images=request.calibration_images,
            etrecord=request.etrecord,
            cache=None if request.no_cache else request.cache or default_directory(),
            max_memory=None
            if request.max_memory is None
            else parse_size(request.max_memory, "--max-memory"),
            device=find_device(request.device),
        )
        result = export_model(options, display)
    seconds = time.monotonic() - started
    summarize(out, lambda: _show(result, request.etrecord, request.layer_errors, seconds))


def _check(request: Request, out: Path) -> None:
    """Exits with 2 if an option is not valid."""
    with checking():
        check_file(request.delegate, out, request.etrecord, request.max_size, request.bits)
        if request.vad is not None:
            raise ExportError("--vad is for models that hear, which this is not: leave it out.")
        check_given_lengths(request.max_context_len, request.max_seq_len)
        check_source(request.model, request.checkpoint)
        request.chosen_vision_scheme()  # refuses what is not
        has_budget = request.bits is not None or request.max_size is not None
        request.check(has_budget)
        if has_budget:
            require_spreadable(request.chosen_scheme())
        check_installed(request.delegate)
        if request.chat_template is not None:
            require_chat_template(request.chat_template)
        if request.tokenizer is not None:
            find_tokenizer(request.tokenizer)
        check_files(request.model, request.checkpoint, request.adapter)
        lengths = request.max_context_len, request.max_seq_len
        check_config(request.model, request.checkpoint, *lengths)
        check_vision(request)
        check_weights(request.model, request.checkpoint)


def _show(
    result: "ExportResult", etrecord: Path | None, layer_errors: bool, seconds: float
) -> None:
    quantization, report = result.quantization, result.delegation
    if layer_errors:
        for index, error in enumerate(quantization.layer_errors):
            click.echo(f"layer {index}: relative error {error:.4f}")
    size = quantization.size
    head = f"head {megabytes(size.head)}" if size.head else "head shared with the embedding"
    click.echo(
        f"weights: {size.weights:,} at {size.bits_per_weight:.2f} bits each "
        f"({size.linear_bits_per_weight:.3f} in the layers; embedding {megabytes(size.embedding)},"
        f" {head})"
    )
    quality = quantization.quality
    if quality is not None:
        reference = "of the weights dequantized" if quantization.scheme == "keep" else "in float"
        click.echo(
            "quality: perplexity "
            f"{with_error(quality.perplexity_float, quality.perplexity_float_error, 3)} "
            f"{reference}, "
            f"{with_error(quality.perplexity_quantized, quality.perplexity_quantized_error, 3)} "
            f"as exported; KL {with_error(quality.kl, quality.kl_error, 4)} nats, top-1 "
            f"{quality.top1:.1%} ± {quality.top1_error:.1%} ({quality.tokens} held-out tokens of "
            f"{result.report['text']['name']})"
        )
    _show_delegation(report)
    vision = result.report.get("vision")
    if vision is not None:
        click.echo(f"pictures: {_of_pictures(vision)}")
    if result.agreement is not None:
        error = result.agreement.error
        share = f"{error:.2g}" if error >= _LEAST_SHARE else f"less than {_LEAST_SHARE}"
        click.echo(
            f"checked: the file's logits differ from the quantized model's by {share} of their "
            f"deviation over {result.agreement.positions} calls"
        )
    else:
        show_unchecked(report.users)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    click.echo(
        f"wrote {result.out}: {megabytes(result.size)} in {seconds:.0f} s, "
        f"peak memory {megabytes(peak)}"
    )
    if etrecord is not None:
        click.echo(f"wrote {etrecord}: {megabytes(etrecord.stat().st_size)}")


def _of_pictures(vision: Mapping[str, Any]) -> str:
    rows = f"{vision['rows']} rows of each tile of {vision['tile']} pixels"
    quality = vision["quality"]
    if quality is None:
        return rows
    return (
        f"{rows}; in {vision['quantization']['bits']} bits, the cosine to those in float is "
        f"{quality['cosine_mean']:.4f}, of the worst {quality['cosine_worst']:.4f} "
        f"({quality['rows']} rows of held-out pictures)"
    )


def _show_delegation(report: "DelegationReport") -> None:
    """Prints what each delegate runs; with several, also why the others do not, by source line."""
    click.echo(
        f"delegate: {' and '.join(report.users)} run{'' if len(report.users) > 1 else 's'} "
        f"{report.linears_delegated} of {report.linears} linears "
        f"({report.linears_delegated / report.linears:.0%}) in "
        f"{report.calls} call{'s' if report.calls != 1 else ''}"
    )
    for part in report.parts:
        if part.refused is not None:
            click.echo(f"  {part.delegate}: nothing. {part.refused}")
        else:
            taken = sum(part.delegated.values())
            calls = f" in {part.calls} call{'s' if part.calls != 1 else ''}" if part.calls else ""
            click.echo(f"  {part.delegate}: {taken} operator{'s' if taken != 1 else ''}{calls}")
    if report.parts:
        show_kernels(report.lines)
    elif report.lines:
        click.echo(
            f"left to ExecuTorch's kernels: {sum(report.left.values())} operators from "
            f"{len({left.line for left in report.lines})} lines, which --inspect lists"
        )
