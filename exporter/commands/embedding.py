"""The export of a model that embeds texts: its options, and the summary."""

import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from delegates import DelegateError
from exporter.command_line.interruption import nothing_to_clean_up, say_from_now
from exporter.command_line.quiet import silence_known_noise, silence_native_noise
from exporter.command_line.streams import drop_standard_output
from exporter.commands.checks import check_file
from exporter.commands.display import Display
from exporter.commands.request import Request
from exporter.errors import ExportError
from quant.errors import QuantError

if TYPE_CHECKING:
    from exporter.embedding.pipeline import EmbeddingResult

# Options of decoders alone, by their fields in Request.
_OF_DECODERS = {
    "adapter": "--adapter",
    "tokenizer": "--tokenizer",
    "head_bits": "--head-bits",
    "bits": "--bits",
    "max_size": "--max-size",
    "method": "--method",
    "calibration": "--calibration",
    "calibration_tokens": "--calibration-tokens",
    "max_context_len": "--max-context-len",
    "max_memory": "--max-memory",
    "layer_errors": "--layer-errors",
}


def encoder_directory(request: Request) -> Path | None:
    """Returns the directory of the request's model if it is an encoder's; else None."""
    named = request.checkpoint if request.checkpoint is not None else request.model
    if named is None:
        return None
    directory = Path(named).expanduser()
    if not directory.is_dir():
        return None
    with nothing_to_clean_up():
        silence_known_noise()
        from exporter.checkpoint.encoder import is_encoder

        return directory if is_encoder(directory) else None


def run_embedding_export(request: Request, directory: Path, out: Path, default: bool) -> None:
    """Runs one export to `out` and prints a summary.

    Exits with 2 if the request is not possible, which is detected before any stage begins; with 1
    if the work failed. In both cases, and on an interrupt, no file is changed.

    Args:
        default: whether the user named no scheme.
    """
    started = time.monotonic()
    with nothing_to_clean_up():
        from exporter.embedding.pipeline import EmbeddingOptions, export_embedding
        from exporter.tokenizer import TokenizerError
        from quant.scheme import scheme_from_text

    with silence_native_noise() as stderr:
        display = Display(stderr)
        try:
            _check(request, out)
            scheme = "rtn8" if default else request.scheme
            options = EmbeddingOptions(
                directory=directory,
                out=out,
                scheme=scheme_from_text(scheme, None, request.group_size, None),
                max_seq_len=request.max_seq_len,
                delegate=request.delegate,
                etrecord=request.etrecord,
            )
            with display:
                result = export_embedding(options, display)
        except (QuantError, DelegateError, ExportError, TokenizerError) as error:
            click.echo(f"Error: {error}", file=stderr)
            sys.exit(1 if display.began_work else 2)
    say_from_now(f"Interrupted; {out} was written.")
    try:
        _show(result, request.etrecord, time.monotonic() - started)
    except OSError as error:
        drop_standard_output()
        click.echo(
            f"{out} was written; the summary could not be printed ({error.strerror}).", err=True
        )


def _check(request: Request, out: Path) -> None:
    """Raises ExportError, DelegateError or QuantError for options that are not possible."""
    check_file(request.delegate, out, request.etrecord, None)
    for field, name in _OF_DECODERS.items():
        if getattr(request, field) not in (None, (), False):
            raise ExportError(
                f"{name} has no effect on a model of embeddings, which this is: leave it out."
            )


def _show(result: "EmbeddingResult", etrecord: Path | None, seconds: float) -> None:
    quality, report = result.quality, result.delegation
    click.echo(
        f"weights: {result.parameters:,} at {8 * result.size / result.parameters:.2f} bits each, "
        "with all else that is in the file"
    )
    if quality is not None:
        click.echo(
            f"quality: cosine with the embeddings in float {quality.cosine_worst:.5f} at worst, "
            f"{quality.cosine_mean:.5f} on average ({quality.sentences} held-out sentences)"
        )
    click.echo(
        f"delegate: {report.delegate} runs {report.linears_delegated} of {report.linears} linears "
        f"in {report.calls} call"
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    click.echo(
        f"wrote {result.out}: {result.size / 1e6:.1f} MB in {seconds:.0f} s, "
        f"peak memory {peak / 1e6:.0f} MB"
    )
    if etrecord is not None:
        click.echo(f"wrote {etrecord}: {etrecord.stat().st_size / 1e6:.1f} MB")
