"""The export of a model that embeds texts: its options, and the summary."""

import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from exporter.catalogue.encoders import is_encoder
from exporter.catalogue.names import is_hub_id
from exporter.command_line.interruption import nothing_to_clean_up
from exporter.command_line.quiet import silence_known_noise
from exporter.commands.checks import check_file
from exporter.commands.request import Request
from exporter.commands.summary import summarize
from exporter.commands.working import checking, importing, working
from exporter.errors import ExportError
from quant.scheme import Scheme, scheme_from_text

if TYPE_CHECKING:
    from exporter.embedding.pipeline import EmbeddingResult
    from exporter.explain import Explanation
    from exporter.listener import Listener

_UNWRITTEN = Path("model.pte")  # of an explanation
# Options of decoders alone, by their fields in Request.
_OF_DECODERS = (
    *(
        "adapter",
        "tokenizer",
        "chat_template",
        "head_bits",
        "bits",
        "max_size",
        "method",
        "calibration",
        "imatrix",
    ),
    *("calibration_tokens", "max_context_len", "max_memory", "layer_errors"),
    *("no_vision", "vision_quant", "calibration_images", "vad"),
)


def names_encoder(request: Request) -> bool:
    """Whether the request's model is an encoder: a directory, or on the hub. Exits with 2 if it
    cannot be downloaded."""
    named = _named(request)
    if named is None:
        return False
    path = Path(named).expanduser()
    if path.exists() or not is_hub_id(named):
        return path.is_dir() and is_encoder(path)
    with nothing_to_clean_up():
        from exporter.catalogue.hub import download_configs

    with checking():
        configs = download_configs(named)
    return is_encoder(configs)


def _named(request: Request) -> str | None:
    named = request.checkpoint if request.checkpoint is not None else request.model
    return None if named is None else str(named)


def _directory(named: str) -> Path:
    directory = Path(named).expanduser()
    if directory.is_dir():
        return directory
    from exporter.catalogue.hub import download_encoder

    return download_encoder(named)


def run_embedding_export(request: Request, out: Path, default: bool) -> None:
    """Runs one export to `out` and prints a summary.

    Exits with 2 if the request is not possible, which is detected before any stage begins; with 1
    if the work failed. In both cases, and on an interrupt, no file is changed.

    Args:
        default: whether the user named no scheme.
    """
    started = time.monotonic()
    scheme = _check(request, out, default)
    silence_known_noise()
    with importing():
        from exporter.embedding.pipeline import EmbeddingOptions, export_embedding

    named = _named(request)
    assert named is not None
    with working() as display:
        directory = _directory(named)
        options = EmbeddingOptions(
            directory=directory,
            name=named if is_hub_id(named) else directory.resolve().name,
            out=out,
            scheme=scheme,
            max_seq_len=request.max_seq_len,
            delegate=request.delegate,
            etrecord=request.etrecord,
        )
        result = export_embedding(options, display)
    seconds = time.monotonic() - started
    summarize(out, lambda: _show(result, request.etrecord, seconds))


def run_embedding_explain(request: Request, default: bool) -> None:
    """Prints what an export would do with each line, and writes it to the file of --explain-json.

    Exits as run_embedding_export() does.
    """
    scheme = _check(request, None, default)
    silence_known_noise()
    with importing():
        from exporter.commands.explain import show_explanation
        from exporter.embedding.explain import explain_embedding
        from exporter.embedding.pipeline import EmbeddingOptions

    named = _named(request)
    assert named is not None

    def explain(listener: "Listener") -> "Explanation":
        options = EmbeddingOptions(
            directory=_directory(named),
            out=_UNWRITTEN,
            scheme=scheme,
            max_seq_len=request.max_seq_len,
            delegate=request.delegate,
        )
        return explain_embedding(options, listener)

    show_explanation(explain, request.explain_json)


def _check(request: Request, out: Path | None, default: bool) -> Scheme:
    """Returns the scheme to store the weights in; exits with 2 if an option is not valid."""
    with checking():
        check_file(request.delegate, out, request.etrecord, explained=request.explain_json)
        for field in _OF_DECODERS:
            if getattr(request, field) not in (None, (), False):
                raise ExportError(
                    f"--{field.replace('_', '-')} has no effect on a model of embeddings, which "
                    "this is: leave it out."
                )
        scheme = "rtn8" if default else request.scheme
        return scheme_from_text(scheme, None, request.group_size, None)


def _show(result: "EmbeddingResult", etrecord: Path | None, seconds: float) -> None:
    quality, report = result.quality, result.delegation
    click.echo(f"weights: {result.parameters:,}")
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
