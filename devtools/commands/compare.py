"""`python -m devtools compare`: runs the three forms of a model and shows where they differ."""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from devtools.bench.shape import SHAPE_FIELDS
from devtools.commands.requests import CompareRequest
from devtools.errors import BadRequest, DevtoolsError
from devtools.files import check_outputs, replacing, using_temporary_files

if TYPE_CHECKING:
    from torch import Tensor

    from devtools.compare.outcome import Outcome
    from devtools.compare.rows import Comparison
    from devtools.profile.etrecord import Record
    from exporter.checkpoint import Checkpoint
    from quant.scheme import Scheme


def run_compare(request: CompareRequest) -> None:
    """Prints the comparison; exits with 2 if the request is not possible, with 1 if the work
    failed."""
    from exporter.command_line.quiet import silence_known_noise, silence_native_noise

    _check(request)
    silence_known_noise()
    with silence_native_noise() as stderr:
        from delegates import DelegateError
        from devtools.commands.compare_table import show
        from exporter.errors import ExportError
        from exporter.tokenizer import TokenizerError
        from quant.errors import QuantError
        from runtime import RunnerError

        try:
            outcome = compare(request)
            if request.json is not None:
                with replacing(request.json) as temporary:
                    text = json.dumps(outcome.to_dict(), indent=1) + "\n"
                    temporary.write_text(text, encoding="utf-8")
        except (BadRequest, ExportError, TokenizerError, DelegateError, QuantError) as error:
            click.echo(f"Error: {error}", file=stderr)
            sys.exit(2)
        except (DevtoolsError, RunnerError) as error:
            click.echo(f"Error: {error}", file=stderr)
            sys.exit(1)
    show(outcome)


def _check(request: CompareRequest) -> None:
    """Exits with 2 if an argument is not valid; large libraries are imported after this."""
    from exporter.catalogue.names import check_model
    from exporter.errors import ExportError
    from exporter.file.pte import read_report

    try:
        check_outputs((request.json,), (request.model, _etrecord(request), request.text))
        report = read_report(request.model)
        _require_one_method(request.model, report)
        _require_etrecord(request)
        if "module" not in report:
            check_model(request.checkpoint)
        elif request.text is not None:
            raise BadRequest(
                f"{request.model} holds a module, which runs on its example; leave out --text."
            )
    except (BadRequest, ExportError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)


def _require_one_method(path: Path, report: Mapping[str, Any]) -> None:
    if "methods" in report:
        raise BadRequest(
            f"{path} holds a module of several methods, which its export has compared already "
            "(--inspect shows how far each is off); compare needs a module of one."
        )
    if "module" in report:
        return
    if report["model"].get("task") == "transcription":
        raise BadRequest(
            f"{path} holds a model that hears, whose export has compared it with float already "
            "(--inspect shows the errors); compare needs another model."
        )


def _require_etrecord(request: CompareRequest) -> Path:
    etrecord = _etrecord(request)
    if not etrecord.is_file():
        raise BadRequest(
            f"There is no {etrecord}; export with --etrecord, and name that file with --etrecord "
            "here."
        )
    return etrecord


@using_temporary_files()
def compare(request: CompareRequest) -> "Outcome":
    """Runs the float model, the quantized model and the program on one text, for which an encoder
    makes one row; of a module, it and its program on its example.

    Raises:
        BadRequest: a file is missing, belongs to another model, or cannot run on this machine.
        DevtoolsError, RunnerError: the program cannot be watched, or a disk is full.
        ExportError, TokenizerError, DelegateError, QuantError: from reading the model, the
            checkpoint, a text.
    """
    from exporter.file.pte import read_report

    report = read_report(request.model)
    if "module" in report:
        return _compare_module(request, report)
    if report["model"].get("task") == "embedding":
        return _compare_encoder(request, report)
    return _compare_decoder(request, report)


def _compare_module(request: CompareRequest, report: dict[str, Any]) -> "Outcome":
    from devtools.commands.compare_module import compare_module, load_delegates, make_exported
    from devtools.profile.etrecord import read_etrecord
    from exporter.module.source_name import source_name

    facts, etrecord = report["module"], _require_etrecord(request)
    source = source_name(request.checkpoint)
    if source is None:
        raise BadRequest(
            f"{request.model} holds a module; name with --checkpoint the function that makes it, "
            f"as in {facts['source']}."
        )
    made = make_exported(source, facts, request.model)
    record = read_etrecord(etrecord)
    _check_program(record, request.model, etrecord)
    _check_written_together(record, request.model, etrecord)
    if not load_delegates(report["delegation"], request.model):
        raise _cannot_run(report["delegation"]["delegate"], request.model)
    rounds = facts["quant"] != "none"
    comparison = compare_module(request.model, made, record, rounds)
    if not comparison.rows:
        raise BadRequest(
            f"Nothing can be compared by line: {request.model} shows no value that a line of "
            f"{source} makes. --inspect shows how far its export found the outputs off."
        )
    outcome = _outcome(request, report, str(source), facts["quant"], {}, comparison)
    return replace(outcome, tolerance=None, wrong=None) if rounds else outcome


def _compare_encoder(request: CompareRequest, report: dict[str, Any]) -> "Outcome":
    from devtools.commands.compare_encoder import compare_encoder, open_exported, read_tokens
    from devtools.commands.recorded_weights import read_weights
    from devtools.profile.etrecord import read_etrecord
    from exporter.catalogue.hub import download_encoder

    facts, etrecord = report["model"], _require_etrecord(request)
    record, directory = read_etrecord(etrecord), Path(request.checkpoint).expanduser()
    directory = directory if directory.exists() else download_encoder(request.checkpoint)
    checkpoint = open_exported(directory, facts, request.model)
    scheme = _scheme(report["quantization"], request.model)
    _check_record(report, record, request.model, etrecord)
    tokens = read_tokens(_text(request), checkpoint, request.tokens, facts["max_seq_len"])
    compared = compare_encoder(
        request.model, checkpoint, record, read_weights(etrecord), scheme, tokens
    )
    lengths = {"prefill_tokens": len(tokens), "decode_tokens": 0}
    lengths = {"tokens": len(tokens), **lengths}
    name, quant = checkpoint.opened.name, report["quantization"]["scheme"]
    outcome = _outcome(request, report, name, quant, lengths, compared.comparison)
    return replace(outcome, cosines=compared.cosines)


def _compare_decoder(request: CompareRequest, report: dict[str, Any]) -> "Outcome":
    import torch

    from devtools.commands.compare_models import compare_models
    from devtools.commands.compare_program import run_program
    from devtools.commands.recorded_weights import quantized_model, read_weights
    from devtools.compare.figures import logit_distance
    from devtools.compare.logged import Log
    from devtools.profile.etrecord import read_etrecord
    from exporter.catalogue.find import open_model
    from exporter.file.report import ORIGINAL_CONTEXT

    etrecord = _require_etrecord(request)
    record = read_etrecord(etrecord)
    checkpoint = open_model(request.checkpoint)
    _check_shape(report["model"], request.model, checkpoint)
    both = ORIGINAL_CONTEXT in report["model"]
    made_for = checkpoint.config.for_context(report["model"]["max_context_len"], both)
    checkpoint = replace(checkpoint, config=made_for)
    scheme = _scheme(report["quantization"], request.model)
    _check_record(report, record, request.model, etrecord)
    int8_heads = report["quantization"].get("int8_heads", False)
    quantized = quantized_model(checkpoint, read_weights(etrecord), etrecord, scheme, int8_heads)
    tokens = _tokens(request, checkpoint, report["model"])
    with Log() as log:
        logged, logits, calls = run_program(request.model, report, record, tokens, log)
        comparison, models = compare_models(checkpoint, quantized, tokens, logged, calls)
    ends = torch.tensor([s + n - 1 for s, n in zip(calls.starts, calls.lengths, strict=True)])
    floats, rounded = models.floats[ends], models.quantized[ends]
    distances = {
        "quantized_beside_float": logit_distance(floats, rounded),
        "program_beside_quantized": logit_distance(rounded, logits),
        "program_beside_float": logit_distance(floats, logits),
    }
    if models.routed is not None and comparison.routing:
        distances["program_beside_routed"] = logit_distance(models.routed[ends], logits)
    lengths = {
        "tokens": len(tokens),
        "prefill_tokens": calls.lengths[0],
        "decode_tokens": len(tokens) - calls.lengths[0],
    }
    quant = report["quantization"]["scheme"]
    outcome = _outcome(request, report, checkpoint.name, quant, lengths, comparison)
    return replace(outcome, logits=distances)


def _outcome(
    request: CompareRequest,
    report: dict[str, Any],
    checkpoint: str,
    scheme: str,
    lengths: dict[str, int],
    comparison: "Comparison",
) -> "Outcome":
    """The result by line.

    Args:
        lengths: of the text, for the report.

    Raises:
        BadRequest: no line could be compared.
    """
    from devtools.compare.outcome import Outcome
    from devtools.compare.rows import FLOAT_TOLERANCE, QUANTIZED_TOLERANCE

    if not comparison.rows:
        raise BadRequest(
            f"Nothing that {request.model} logged is in the graph of {_etrecord(request)}; give "
            "the record that was written together with this file."
        )
    tolerance = FLOAT_TOLERANCE if scheme == "none" else QUANTIZED_TOLERANCE
    return Outcome(
        {
            "model": str(request.model),
            "checkpoint": checkpoint,
            "delegate": report["delegation"]["delegate"],
            "scheme": scheme,
            **lengths,
        },
        comparison,
        tolerance,
        comparison.first_wrong(tolerance),
        comparison.odd_weights(),
    )


def _etrecord(request: CompareRequest) -> Path:
    return request.etrecord or request.model.with_suffix(".etrecord")


def _check_shape(facts: dict[str, Any], model: Path, checkpoint: "Checkpoint") -> None:
    dimensions = checkpoint.config.dimensions()
    for name in SHAPE_FIELDS:
        expected = dimensions[name]
        if facts[name] != expected:
            raise BadRequest(
                f"{model} has {name} {facts[name]} but {checkpoint.name} has {expected}; give the "
                "checkpoint that was exported."
            )


def _check_record(report: dict[str, Any], record: "Record", model: Path, etrecord: Path) -> None:
    """Checks that a record is of a file, and that this machine can run that."""
    _check_program(record, model, etrecord)
    _check_written_together(record, model, etrecord)
    _check_runs(report["delegation"]["delegate"], model)


def _check_written_together(record: "Record", model: Path, etrecord: Path) -> None:
    """Checks that a record, if it tells, is of this file, or of one with the same bytes."""
    from devtools.report.program import read_program

    if record.fingerprint not in ("", read_program(model).fingerprint):
        raise BadRequest(
            f"{etrecord} is of another export than {model}, such as one of other weights; give the "
            "record that was written together with this file."
        )


def _check_program(record: "Record", model: Path, etrecord: Path) -> None:
    """Checks the program: the same weights may have been lowered to other delegates."""
    from devtools.report.program import read_program

    recorded = {number: item.backend for number, item in record.delegates.items()}
    if read_program(model).backends != recorded:
        raise BadRequest(
            f"{etrecord} belongs to another program than {model}; give the record that was written "
            "together with this file."
        )


def _check_runs(delegate: str, model: Path) -> None:
    """Checks that this machine can run it; also registers what its delegate needs."""
    from delegates import get_delegate

    if get_delegate(delegate).load(model) is None:
        raise _cannot_run(delegate, model)


def _cannot_run(delegate: str, model: Path) -> BadRequest:
    return BadRequest(
        f"{model} runs on {delegate}, which this machine cannot run; compare it where it runs, "
        "or export with --delegate cpu or xnnpack."
    )


def _scheme(quantization: dict[str, Any], model: Path) -> "Scheme":
    """The scheme of an export; one whose rotation is folded into the weights is refused, because it
    changes the residual stream and so what lines compute."""
    from quant.method import Method
    from quant.scheme import Scheme

    settings = quantization.get("method")
    method = None if settings is None else Method(**settings)
    if method is not None and method.folds_rotation:
        raise BadRequest(
            f"{model} was exported with rotation={method.rotation}, so its lines compute other "
            "numbers than the checkpoint's; compare an export with rotation=none."
        )
    return Scheme(quantization["scheme"], method=method)


def _tokens(request: CompareRequest, checkpoint: "Checkpoint", facts: dict[str, Any]) -> "Tensor":
    """Returns int64 (tokens,): the beginning of the text, or of a text that calibration does not
    use; no more than a first call can give its rotary table."""
    import torch

    from exporter.file.report import ORIGINAL_CONTEXT
    from exporter.tokenizer import load_tokenizer

    original = facts.get(ORIGINAL_CONTEXT)
    longest: int = facts["max_context_len"]
    if original is not None and facts["max_seq_len"] <= original:
        longest = original
    count = min(request.tokens, longest)
    ids = load_tokenizer(checkpoint.directory).encode(_text(request)[: 32 * count])
    start = [] if facts["bos_id"] is None else [facts["bos_id"]]
    tokens = torch.tensor((start + ids)[:count], dtype=torch.int64)
    if len(tokens) < 2:
        raise BadRequest("The text has fewer than 2 tokens; give a longer one with --text.")
    return tokens


def _text(request: CompareRequest) -> str:
    """The text that was named, or one that calibration does not use."""
    from exporter.catalogue.names import EMBEDDED
    from quant.measure.windows import held_out_part

    if request.text is None:
        return held_out_part((EMBEDDED / "calibration.txt").read_text(encoding="utf-8"))
    try:
        return request.text.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadRequest(
            f"{request.text} cannot be read as text ({reason}); name a UTF-8 text file."
        ) from None
