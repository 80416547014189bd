"""A model of embeddings in float, quantized, and as its file computes it: by line, on one text."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from devtools.commands.compare_models import weights_alone
from devtools.commands.compare_program import watched
from devtools.commands.recorded_weights import fill
from devtools.compare.graph_values import LoggedRows
from devtools.compare.logged import Log
from devtools.compare.recording import Recorder
from devtools.compare.rows import Calls, Comparison, Stage, compare_stage, program_rows, stacked
from devtools.errors import BadRequest
from devtools.profile.etrecord import Record
from exporter.catalogue.encoders import is_encoder
from exporter.checkpoint.checkpoint import Checkpoint
from exporter.checkpoint.encoder import open_encoder
from exporter.embedding.pipeline import empty_model
from exporter.embedding.quantize import stored_scheme
from exporter.embedding.settings import EmbeddingSettings, read_settings
from exporter.embedding.text import open_tokenizer
from exporter.models.encoder import EmbeddingModel
from exporter.models.encoder_spec import AnyEncoderSpec
from quant.scheme import Scheme

_SHAPE = "hidden_size", "num_hidden_layers", "vocab_size"


@dataclass(frozen=True)
class EncoderCheckpoint:
    """The checkpoint that was exported, with its settings."""

    opened: Checkpoint[AnyEncoderSpec]
    settings: EmbeddingSettings


@dataclass(frozen=True)
class ComparedRows:
    """
    Attributes:
        tokens: of the text.
        cosines: of its row, by the pair that is compared.
    """

    comparison: Comparison
    tokens: int
    cosines: dict[str, float]


def open_exported(directory: Path, facts: dict[str, Any], path: Path) -> EncoderCheckpoint:
    """Opens the checkpoint of a file.

    Args:
        facts: of the model, from the file's report.

    Raises:
        BadRequest: it is of another model.
        ExportError: it cannot be read.
    """
    if not is_encoder(directory):
        raise BadRequest(
            f"{path} holds a model of embeddings, and {directory} does not; give the directory "
            "that was exported."
        )
    settings = read_settings(directory)
    opened = open_encoder(directory, settings.dense)
    for name in _SHAPE:
        expected = getattr(opened.config, name)
        if facts[name] != expected:
            raise BadRequest(
                f"{path} has {name} {facts[name]} but {opened.name} has {expected}; give the "
                "checkpoint that was exported."
            )
    return EncoderCheckpoint(opened, settings)


def read_tokens(text: str, checkpoint: EncoderCheckpoint, most: int, limit: int) -> Tensor:
    """Returns int64 (tokens,): the beginning of a text, and the tokens around it.

    Args:
        most: that are wanted.
        limit: of the file.
    """
    opened = checkpoint.opened
    _, reader = open_tokenizer(opened.directory, opened.config, checkpoint.settings, limit)
    around = len(reader.template.before) + len(reader.template.after)
    reader.max_seq_len = min(limit, max(most, around + 2))
    return torch.tensor(reader.encode(text[: 32 * limit]), dtype=torch.int64)


@torch.no_grad()
def compare_encoder(
    path: Path,
    checkpoint: EncoderCheckpoint,
    record: Record,
    weights: dict[str, Tensor],
    scheme: Scheme,
    tokens: Tensor,
) -> ComparedRows:
    """Runs both models and the file on one text. The third run, of the quantized model again, reads
    in each layer what the program computed before it.

    Args:
        record, weights: of the same export.
        tokens: int64 (tokens,).

    Raises:
        BadRequest, DevtoolsError, RunnerError: the file cannot be watched, or shows nothing.
    """
    opened, spec, count = checkpoint.opened, checkpoint.settings.spec, len(tokens)
    floats, quantized = (empty_model(opened.config, spec).eval() for _ in range(2))
    opened.load_into(floats, "")
    fill(quantized, opened, weights, path, stored_scheme(scheme))
    for model in (floats, quantized):
        model.setup_positions(count)
    calls = Calls([0], [count])
    with Log() as log, watched(path, record, log, _width(quantized)) as (program, collector):
        collector.begin_call(0)
        row = program.call(tokens.tolist(), 0, collector.take)
        logged = collector.rows()
        recorders, rows = [], []
        for model, given in ((floats, []), (quantized, []), (quantized, logged)):
            recorder = Recorder()
            rows.append(_run(model, tokens, recorder, _reading(given, recorder, calls)))
            recorders.append(recorder)
        alone, own, restarted = recorders
        stage = Stage(alone, own, restarted, weights_alone(quantized, alone))
        compared = compare_stage(stage, logged, calls, count)
        shown = {one.sink for one in compared}
        left = [item for item in logged if item.sink not in shown]
        compared += compare_stage(stage, left, Calls([0], [1]), 1)  # what is pooled is one row
    shown = {one.sink for one in compared}
    pairs = {
        "quantized_beside_float": (rows[0], rows[1]),
        "program_beside_quantized": (rows[1], torch.frombuffer(row, dtype=torch.float32)),
        "program_beside_float": (rows[0], torch.frombuffer(row, dtype=torch.float32)),
    }
    return ComparedRows(
        Comparison(
            sorted(compared, key=lambda one: one.sink.order),
            [item.sink for item in logged if item.sink not in shown],
        ),
        count,
        {
            name: cosine_similarity(want.double(), have.double(), dim=0).item()
            for name, (want, have) in pairs.items()
        },
    )


def _width(model: EmbeddingModel) -> int:
    dense = model.embedding.dense
    return dense[-1].out_features if dense else model.config.hidden_size


_Hook = Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...] | None]


def _reading(logged: list[LoggedRows], recorder: Recorder, calls: Calls) -> _Hook:
    """Returns what gives a layer the program's rows instead of the model's, as far as it shows
    them."""

    def read(_: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
        rows = program_rows(logged, recorder, given[0], calls)
        return None if rows is None else (stacked(rows, given[0]), *given[1:])

    return read


def _run(model: EmbeddingModel, tokens: Tensor, recorder: Recorder, reading: _Hook) -> Tensor:
    """Returns the row of a text, float32 (width,)."""
    hooks = [layer.register_forward_pre_hook(reading) for layer in model.model.layers]
    try:
        with recorder.watching(model, ""):
            row: Tensor = model(tokens[None])
    finally:
        for hook in hooks:
            hook.remove()
    return row[0]
