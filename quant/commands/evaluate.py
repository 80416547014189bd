"""`python -m quant eval`: perplexity, bits per byte, KL and top-1 of one model."""

import json
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quant.commands.eval_request import Request
from quant.commands.network import use_cache_without_network

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quant.commands.measured_model import Scored
    from quant.commands.windows import ScoredText
    from quant.measure.windows import Encode


DEFAULT_CONTEXT = 2048
_COMPARED = 1 << 16  # characters of the text, of which two models must make the same tokens


def run_eval(request: Request) -> None:
    """Measures a model and prints the figures; exits with 2 if the request is not possible."""
    _check(request)
    if request.task_names:
        os.environ.setdefault("TQDM_DISABLE", "1")  # the harness' bars; tqdm looks when imported
        use_cache_without_network()
    from exporter.command_line.quiet import silence_known_noise
    from exporter.command_line.waiting import wait_briefly

    silence_known_noise()  # before the imports that make it
    wait_briefly()
    from delegates import DelegateError
    from exporter.errors import ExportError
    from exporter.tokenizer import TokenizerError
    from quant.errors import QuantError
    from runtime.errors import BuildError, RunnerError

    sentences = (QuantError, DelegateError, ExportError, TokenizerError, RunnerError, BuildError)
    try:
        if request.task_names:
            figures = evaluate_tasks(request)
        else:
            assert request.text is not None  # _check()
            figures = evaluate(request, request.text)
    except sentences as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1 if isinstance(error, BuildError) else 2)
    click.echo(json.dumps(figures) if request.as_json else describe(figures))


def _check(request: Request) -> None:
    """Exits with 2 if an argument is not valid; large libraries are imported after this."""
    from exporter.errors import ExportError
    from quant.commands.checks import check_scored, read_text, require_for
    from quant.errors import QuantError

    try:
        if request.task_names:
            if request.text is not None or request.against is not None:
                raise QuantError(
                    "--tasks cannot be used with --text or --against; run them separately."
                )
            require_for("--text", request.for_text)
        elif request.text is None:
            raise QuantError("no text or tasks were given; add --text FILE or --tasks NAMES.")
        else:
            require_for("--tasks", request.for_tasks)
            read_text(request.text)
        check_scored(request.model, request.run_as)
        if request.against is None:
            require_for("--against", request.for_against)
        else:
            check_scored(request.against, request.against_as)
    except (QuantError, ExportError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)


def evaluate_tasks(request: Request) -> dict[str, object]:
    """Returns the tasks' figures by name.

    Raises:
        ExportError, TokenizerError, DelegateError, QuantError, RunnerError, BuildError: as
            `evaluate`.
    """
    from quant.commands.bar import progress_bar
    from quant.commands.harness import Tasks, load_tasks, run_tasks
    from quant.commands.measured_model import open_scored

    tasks = Tasks(request.task_names, request.task_path, request.limit, request.shots)
    with progress_bar("Answering") as bar:
        loaded = load_tasks(tasks)
        model = open_scored(request.model, request.run_as, bar.advance)
        figures = run_tasks(model, loaded, tasks)
    return {"model": model.name, "runs_with": model.runs_with, "tasks": figures}


def evaluate(request: Request, path: Path) -> dict[str, object]:
    """Returns the figures by name: losses in nats, bits per byte, each with its standard error.

    Raises:
        ExportError, TokenizerError, DelegateError, QuantError, RunnerError, BuildError: the model
            or the text cannot be used.
    """
    from quant.commands.bar import progress_bar
    from quant.commands.checks import read_text
    from quant.commands.measured_model import context_of, open_scored
    from quant.commands.windows import score_windows

    text = read_text(path)
    with progress_bar("Reading") as bar:
        made_for = context_of(request.model) or context_of(request.against or "")
        model = open_scored(request.model, request.run_as, bar.advance, made_for)
        models, against = [model], None
        if request.against is not None:
            against = open_scored(request.against, request.against_as, bar.advance, made_for)
            models.append(against)
            check_vocabularies(model, against)
            if request.tokenizer is None:
                check_tokenizers(text, model, against)
        context = context_length(request.context, models)
        bos_id = next((scored.bos_id for scored in models if scored.bos_id is not None), None)
        encode = find_encode(request.tokenizer, models)
        windows = score_windows(text, encode, context, request.tokens, bos_id, request.separator)
        bar.expect(len(models) * sum(len(window) - 1 for window in windows.windows))
        figures = measure(model, against, windows)
    return {
        "model": model.name,
        "runs_with": model.runs_with,
        "against": None if against is None else against.name,
        "against_runs_with": None if against is None else against.runs_with,
        "text": str(path),
        "context": context,
        **figures,
    }


def context_length(requested: int | None, models: "Sequence[Scored]") -> int:
    """Returns the tokens of a window.

    Raises:
        QuantError: a model cannot take as many as requested; in shorter windows, the figures would
            not be those of that length.
    """
    from quant.errors import QuantError

    shortest = min(models, key=lambda scored: scored.longest)
    if requested is not None and requested > shortest.longest:
        raise QuantError(
            f"--context {requested} is not possible; {shortest.name} takes at most "
            f"{shortest.longest} tokens."
        )
    return min(requested or DEFAULT_CONTEXT, shortest.longest)


def check_vocabularies(model: "Scored", against: "Scored") -> None:
    """Raises QuantError if the logits of two models cannot be compared."""
    from quant.errors import QuantError

    if model.vocab_size != against.vocab_size:
        raise QuantError(
            f"{model.name} has a vocabulary of {model.vocab_size} tokens but {against.name} has "
            f"one of {against.vocab_size}; --against needs a model with the same vocabulary."
        )


def check_tokenizers(text: str, model: "Scored", against: "Scored") -> None:
    """Raises QuantError if two models make other tokens of a text."""
    from quant.errors import QuantError

    start = text[:_COMPARED]
    if model.encode is None or against.encode is None:
        return
    if model.encode(start) != against.encode(start):
        raise QuantError(
            f"{model.name} and {against.name} make different tokens of the text; --against needs a "
            "model with the same tokenizer, or --tokenizer FILE for both."
        )


def find_encode(tokenizer: Path | None, models: "Sequence[Scored]") -> "Encode":
    """Returns the given tokenizer, else the first that a model has.

    Raises:
        TokenizerError, QuantError: the given one cannot be read, or there is none.
    """
    from exporter.tokenizer import load_tokenizer
    from quant.errors import QuantError

    if tokenizer is not None:
        return load_tokenizer(tokenizer).encode
    encode = next((scored.encode for scored in models if scored.encode is not None), None)
    if encode is None:
        raise QuantError(
            f"{models[0].name} has its tokenizer in a form that only the runner reads; give the "
            "model's tokenizer files with --tokenizer, or its checkpoint with --against."
        )
    return encode


def measure(model: "Scored", against: "Scored | None", text: "ScoredText") -> dict[str, object]:
    """Runs the models over the text; KL and top-1 are None without one to compare with."""
    import torch

    from quant.commands.measured_model import PIECE
    from quant.measure.quality import Positions, compare_positions, mean_and_error, summarize

    parts: list[Positions] = []
    with torch.no_grad():
        for window in text.windows:
            targets = window[1:].split(PIECE)
            if against is None:
                for logits, target in zip(model.logits(window[:-1], 0), targets, strict=True):
                    parts.append(compare_positions(logits, logits, target))
                continue
            both = zip(
                against.logits(window[:-1], 0), model.logits(window[:-1], 0), targets, strict=True
            )
            parts += [
                compare_positions(reference, other, target) for reference, other, target in both
            ]
    quality = summarize(parts)
    loss, loss_error = mean_and_error(torch.cat([part.loss for part in parts]))
    nats_per_byte = 1 / text.bytes_per_token
    compared = against is not None
    return {
        "tokens": quality.tokens,
        "perplexity": quality.perplexity_quantized,
        "perplexity_error": quality.perplexity_quantized_error,
        "bits_per_byte": loss * nats_per_byte / math.log(2),
        "bits_per_byte_error": loss_error * nats_per_byte / math.log(2),
        "kl": quality.kl if compared else None,
        "kl_error": quality.kl_error if compared else None,
        "top1": quality.top1 if compared else None,
        "top1_error": quality.top1_error if compared else None,
        "against_perplexity": quality.perplexity_float if compared else None,
        "against_perplexity_error": quality.perplexity_float_error if compared else None,
    }


def describe(figures: dict[str, Any]) -> str:
    """Returns the figures as readable lines."""
    if "tasks" in figures:
        from quant.commands.harness import describe_tasks

        return "\n".join(describe_tasks(figures))
    from quant.measure.format_numbers import with_error

    def shown(name: str, digits: int) -> str:
        return with_error(figures[name], figures[f"{name}_error"], digits)

    lines = [
        f"{figures['model']}: {figures['tokens']} tokens predicted, context {figures['context']}",
        f"runs with      {figures['runs_with']}",
        f"perplexity     {shown('perplexity', 4)}",
        f"bits per byte  {shown('bits_per_byte', 4)}",
    ]
    if figures["against"] is not None:
        lines += [
            f"against {figures['against']}, perplexity {shown('against_perplexity', 4)}",
            f"KL             {shown('kl', 5)} nats",
            f"top-1          {figures['top1']:.2%} ± {figures['top1_error']:.2%}",
        ]
    return "\n".join(lines)
