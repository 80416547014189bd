"""From an encoder's checkpoint to a `.pte` of embeddings: the complete export, in order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram, export

from delegates import DelegationReport, get_delegate, load_program
from delegates.to_executorch import Lowered
from exporter.capture.program import end_traces_at_the_model
from exporter.checkpoint.checkpoint import Checkpoint
from exporter.checkpoint.encoder import open_encoder
from exporter.embedding.blob import EMBEDDING, write_blob
from exporter.embedding.quality import (
    EmbeddingQuality,
    calibration_text,
    compare,
    float_rows,
    held_out_sentences,
    require_quality,
)
from exporter.embedding.quantize import load_quantized, stored_scheme
from exporter.embedding.settings import EmbeddingSettings, read_settings
from exporter.embedding.text import TextReader, open_tokenizer
from exporter.errors import ExportError
from exporter.file.pte import REPORT, TOKENIZER, encode_report
from exporter.file.replacing import check_outputs, replacing
from exporter.file.report import NOT_RUN, Report
from exporter.file.writing import seal_files, write_program
from exporter.listener import SILENT, Listener
from exporter.models.encoder import EmbeddingModel
from exporter.models.encoder_spec import AnyEncoderSpec, EmbeddingSpec
from quant.scheme import Scheme

# Rows of a call, in which several short texts share the products, if the model has them.
LEAST_ROWS = 512
_DELEGATE = "cpu"
_CALIBRATION = (96, 128)  # windows, and tokens of each
_EXAMPLE = 3  # tokens: any number above 1


@dataclass(frozen=True)
class EmbeddingOptions:
    """One export.

    Attributes:
        directory: the checkpoint, with the tokenizer's files.
        name: what to call the model; None: as the directory.
        out: the `.pte` to write.
        scheme: how weights are stored.
        max_seq_len: the most tokens of a text; None: the model's own limit.
        delegate: a name in delegates.DELEGATES.
        etrecord: file for the graphs that the profiler reads.
    """

    directory: Path
    out: Path
    scheme: Scheme
    name: str | None = None
    max_seq_len: int | None = None
    delegate: str = _DELEGATE
    etrecord: Path | None = None


@dataclass(frozen=True)
class EmbeddingResult:
    """The written file and the facts about it."""

    out: Path
    size: int
    parameters: int
    quality: EmbeddingQuality | None
    delegation: DelegationReport


def export_embedding(options: EmbeddingOptions, listener: Listener = SILENT) -> EmbeddingResult:
    """Writes options.out, and options.etrecord if set; on failure neither is changed.

    Raises:
        ExportError, QuantError, TokenizerError, DelegateError: with the sentence to show.
    """
    require_delegate(options.delegate)
    options = replace(options, scheme=stored_scheme(options.scheme))
    check_outputs(options.out, options.etrecord, [options.directory])
    with replacing(options.out) as temporary, replacing(options.etrecord) as etrecord:
        settings = read_settings(options.directory)
        checkpoint = open_encoder(options.directory, settings.dense)
        compiled, reader = open_tokenizer(
            options.directory, checkpoint.config, settings, options.max_seq_len
        )
        for note in compiled.notes:
            listener.note(note)
        model = empty_model(checkpoint.config, settings.spec)
        checkpoint.check(model)
        texts = [reader.encode(sentence) for sentence in held_out_sentences()]
        listener.stage("load" if options.scheme.name == "none" else "quantize")
        rows = rows_of_call(checkpoint.config, reader)
        reference = _reference(checkpoint, settings, texts, rows)
        calibration = _calibration(options.scheme, reader)
        load_quantized(model, checkpoint, options.scheme, calibration, listener.progress)
        listener.stage("capture")
        program = capture(model, rows)
        report = _describe(options, checkpoint, settings, reader)
        blobs = {
            TOKENIZER: compiled.data,
            EMBEDDING: write_blob(settings, reader.template, reader.max_seq_len),
            REPORT: encode_report(report),
        }
        listener.stage("lower")
        methods = _constant_methods(checkpoint.config, reader)
        lowered = get_delegate(options.delegate).lower(
            program, methods, blobs, etrecord is not None
        )
        _require_whole(lowered)
        listener.stage("write")
        write_program(lowered, temporary, etrecord)
        listener.stage("check")
        quality = _check(lowered, temporary, reference, texts)
        if quality is not None:
            require_quality(quality, options.scheme.name != "none")
        report |= {
            "delegation": lowered.report.to_dict(),
            "quality": {"checked": NOT_RUN} if quality is None else quality.to_dict(),
        }
        seal_files(report, temporary, etrecord)
    size = options.out.stat().st_size
    parameters = report["model"]["parameters"]
    return EmbeddingResult(options.out, size, parameters, quality, lowered.report)


def capture(model: EmbeddingModel, rows: int) -> ExportedProgram:
    """Captures `forward(tokens (1, seq_len))` with seq_len in 1 .. rows, the most of a call."""
    model.eval().requires_grad_(False)
    model.setup_positions(rows)
    dims = ({1: Dim("seq_len", min=1, max=rows)},)
    example = (torch.zeros(1, _EXAMPLE, dtype=torch.long),)
    program = export(model, example, dynamic_shapes=dims)
    end_traces_at_the_model(program)
    return program


def require_delegate(name: str) -> None:
    get_delegate(name)  # refuses a name that is not known
    if name != _DELEGATE:
        raise ExportError(
            f"{name} does not support encoders yet: export with --delegate {_DELEGATE}."
        )


def _require_whole(lowered: Lowered) -> None:
    """Raises ExportError unless the complete program is one call, which may have several texts."""
    if lowered.report.calls != 1 or lowered.report.left:
        raise ExportError(
            f"The encoder became {lowered.report.calls} calls of the delegate, which leaves "
            f"{', '.join(lowered.report.left) or 'nothing'}: report this."
        )


def empty_model(encoder: AnyEncoderSpec, embedding: EmbeddingSpec) -> EmbeddingModel:
    with torch.device("meta"):
        return EmbeddingModel(encoder, embedding)


def _reference(
    checkpoint: Checkpoint[AnyEncoderSpec],
    settings: EmbeddingSettings,
    texts: Sequence[list[int]],
    rows: int,
) -> Tensor:
    """Returns the embeddings of the model in floats."""
    model = empty_model(checkpoint.config, settings.spec)
    checkpoint.load_into(model, "")
    model.setup_positions(rows)
    return float_rows(model.eval(), texts)


def _check(
    lowered: Lowered, path: Path, reference: Tensor, texts: Sequence[list[int]]
) -> EmbeddingQuality | None:
    """Returns how close the file's embeddings are; None if this machine cannot run it."""
    step = load_program(lowered.report, path)
    if step is None:
        return None
    return compare(reference, texts, lambda tokens: step(torch.tensor([tokens]))[0])


def _calibration(scheme: Scheme, reader: TextReader) -> Tensor | None:
    """Returns the text that a scheme is calibrated on: int64 (windows, seq_len)."""
    if not scheme.needs_calibration:
        return None
    return reader.windows(calibration_text(), *_CALIBRATION)


def rows_of_call(spec: AnyEncoderSpec, reader: TextReader) -> int:
    """Returns the most rows of a call."""
    return max(reader.max_seq_len, min(LEAST_ROWS, spec.max_seq_len))


def _constant_methods(spec: AnyEncoderSpec, reader: TextReader) -> dict[str, object]:
    rows = rows_of_call(spec, reader)
    return {
        "get_max_seq_len": rows,
        "get_max_context_len": rows,
        "get_vocab_size": spec.vocab_size,
        "enable_dynamic_shape": True,
        "use_kv_cache": False,
    }


def _describe(
    options: EmbeddingOptions,
    checkpoint: Checkpoint[AnyEncoderSpec],
    settings: EmbeddingSettings,
    reader: TextReader,
) -> Report:
    """Returns the report in the file, of what is known before it is checked."""
    spec, type = checkpoint.config, options.scheme.type
    shapes = [p.numel() for p in empty_model(spec, settings.spec).parameters()]
    return {
        "model": {
            "name": options.name or checkpoint.name,
            "model_type": spec.model_type,
            "task": "embedding",
            "parameters": sum(shapes),
            "hidden_size": spec.hidden_size,
            "num_hidden_layers": spec.num_hidden_layers,
            "vocab_size": spec.vocab_size,
            "max_seq_len": reader.max_seq_len,
            "pooling": settings.spec.pooling,
            "normalize": settings.spec.normalize,
            "prompts": list(settings.prompts),
        },
        "quantization": {
            "scheme": options.scheme.name,
            "bits": 32 if type is None else type.bits,
            "group_size": 0 if type is None else type.group_size,
        },
        "quality": {},
    }
