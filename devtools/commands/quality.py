"""The quality command: our files and llama.cpp's of one model, on the same tokens."""

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from delegates import DelegateError
from devtools.bench.plot import require_plotting
from devtools.commands.bench_tables import Display
from devtools.commands.failing import fail
from devtools.commands.float_logits import FloatLogits, Logits
from devtools.commands.output import wide_console
from devtools.commands.requests import QualityRequest, default_counts
from devtools.errors import BadRequest, DevtoolsError
from devtools.files import check_outputs, replacing, using_temporary_files
from devtools.quality.llama_cpp import CHUNK, FIRST, Base, LlamaCpp
from devtools.quality.padded import write_padded
from devtools.quality.plot import draw_quality
from devtools.quality.rows import OURS, THEIRS, Row, table_of
from exporter.catalogue.find import open_model
from exporter.checkpoint import Checkpoint
from exporter.errors import ExportError
from exporter.listener import SILENT
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from exporter.plan.planning import read_plan
from exporter.text.calibration import with_own_text
from exporter.tokenizer import TokenizerError, load_tokenizer
from exporter.tokenizer.compile import read_specification
from quant.cache.place import default_directory
from quant.commands.checks import RunAs
from quant.commands.measured_model import open_scored
from quant.errors import QuantError
from quant.scheme import Scheme, mixes_by_default
from runtime.errors import BuildError, RunnerError


def run_quality(request: QualityRequest) -> None:
    """Makes the files, scores them, prints the table, writes the requested files.

    Exits with 2 if the request is not possible, with 1 if the work failed.
    """
    try:
        _run_quality(request)
    except (BadRequest, ExportError, QuantError, TokenizerError, DelegateError) as error:
        fail(error, 2)
    except (DevtoolsError, RunnerError, BuildError) as error:
        fail(error, 1)


def _run_quality(request: QualityRequest) -> None:
    for path in (request.model, *request.texts):
        if not path.is_file():
            raise BadRequest(f"{path} is not a file.")
    names = [path.stem for path in request.texts]
    for name in names:
        if names.count(name) > 1:
            raise BadRequest(f"two texts are named {name}, as their rows would be: rename one.")
    check_outputs((request.json, request.plot), (request.model, *request.texts))
    if request.plot is not None:
        require_plotting(request.plot)
    tools = LlamaCpp(request.llama_cpp, default_counts()[-1])
    schemes = [Scheme(name) for name in request.quant]
    with (
        Display(sys.stderr) as display,
        using_temporary_files(),
        tempfile.TemporaryDirectory() as directory,
    ):
        measurement = Measurement(request, schemes, tools, display, Path(directory))
        rows = []
        for row in measurement.kept_rows() if request.keep else measurement.rows():
            rows.append(row)
            if request.json is not None:  # after each row: a run takes hours
                with replacing(request.json) as path:
                    path.write_text(json.dumps([row.to_dict() for row in rows], indent=1) + "\n")
    wide_console().print(table_of(rows, names))
    if request.plot is not None:
        with replacing(request.plot) as path:
            draw_quality(rows, names, request.model.stem, path)


class Measurement:
    """One model on its texts, by both engines.

    Args:
        directory: for the files that are made; they take several times the model's size.
    """

    def __init__(
        self,
        request: QualityRequest,
        schemes: Sequence[Scheme],
        tools: LlamaCpp,
        display: Display,
        directory: Path,
    ) -> None:
        self._request, self._schemes, self._tools = request, schemes, tools
        self._display, self._directory = display, directory
        self._options = ExportOptions(
            model=str(request.model),
            out=directory / "model.pte",
            calibration=request.calibration,
            max_context_len=CHUNK,
            cache=default_directory(),
        )
        self._checkpoint = open_model(str(request.model))
        self._floats = directory / "floats.gguf"

    def rows(self) -> Iterator[Row]:
        """llama.cpp's types with an importance matrix, and ours at their bits."""
        request, display, directory = self._request, self._display, self._directory
        display.begin(2 + len(request.texts) + 2 * len(request.types) + len(request.quant))
        display.step("padding the model for llama.cpp")
        source = write_padded(request.model, self._floats)
        display.step("importance matrix")
        importance = directory / "importance.gguf"
        text = _calibration_file(self._options, self._checkpoint, directory)
        self._tools.importance(self._floats, text, importance)
        bases = self._bases(self._floats)
        floats = {name: self._float_logits(base) for name, base in bases.items()}
        rows = []
        for kind in request.types:
            display.step(f"llama.cpp {kind}")
            out = directory / "theirs.gguf"
            self._tools.quantize(self._floats, importance, kind, out)
            kl = {name: self._tools.score(out, base) for name, base in bases.items()}
            rows.append(Row(THEIRS, kind, source.bits(out), kl))
            yield rows[-1]
        exports: list[tuple[str, ExportOptions, str | None]] = [
            *(
                (
                    scheme.name,
                    self._with(scheme=scheme, mixed=mixes_by_default(scheme.name, None)),
                    None,
                )
                for scheme in self._schemes
            ),
            *((f"{row.bits:.2f} bits", self._with(bits=row.bits), row.name) for row in rows),
        ]
        for name, options, beside in exports:
            display.step(f"thimble {name}")
            try:
                yield self._ours(name, options, floats, beside)
            except QuantError as error:  # too few bits
                display.note(f"thimble {name}: {error}")

    def kept_rows(self) -> Iterator[Row]:
        """The file's own integers, run by both; the last row is ours measured from theirs."""
        request, display = self._request, self._display
        display.begin(3 + 2 * len(request.texts))
        display.step("dequantizing the model for llama.cpp")
        source = write_padded(request.model, self._floats)
        bases = self._bases(self._floats)
        floats = {name: self._float_logits(base) for name, base in bases.items()}
        display.step("llama.cpp as it is")
        bits = source.bits(request.model)
        kl = {name: self._tools.score(request.model, base) for name, base in bases.items()}
        yield Row(THEIRS, "as it is", bits, kl)
        theirs = {}
        for name, base in self._bases(request.model).items():
            pieces = base.log_probabilities()
            theirs[name] = FloatLogits(
                self._tokens(base),
                FIRST,
                lambda *_, pieces=pieces: [torch.from_numpy(next(pieces))],
                self._directory / f"{name}.theirs",
            )
        display.step("thimble keep")
        ours = self._ours("keep", self._with(scheme=Scheme("keep")), floats, "as it is")
        yield ours
        logits = _logits_of(self._options.out)
        kl = {name: scored.compare(logits) for name, scored in theirs.items()}
        yield Row(OURS, "keep, from llama.cpp's logits", ours.bits, kl)

    def _bases(self, model: Path) -> dict[str, Base]:
        bases, chunks = {}, self._request.tokens // CHUNK
        for path in self._request.texts:
            self._display.step(f"llama.cpp on {path.name}")
            out = self._directory / f"{model.stem}.{path.stem}.base"
            bases[path.stem] = self._tools.base(model, path, chunks, out)
        return bases

    def _float_logits(self, base: Base) -> FloatLogits:
        kept = self._directory / f"{base.path.stem}.logits"
        return FloatLogits(self._tokens(base), FIRST, _logits_of(self._request.model), kept)

    def _tokens(self, base: Base) -> Tensor:
        """The chunks, each beginning as llama-perplexity begins it when it scores."""
        tokens = torch.from_numpy(base.tokens.copy())
        tokenizer = read_specification(self._checkpoint.directory)
        if tokenizer.adds_bos and tokenizer.bos_id is not None:
            tokens[:, 0] = tokenizer.bos_id
        return tokens

    def _with(self, **changes: Any) -> ExportOptions:
        return replace(self._options, **changes)

    def _ours(
        self,
        name: str,
        options: ExportOptions,
        floats: dict[str, FloatLogits],
        beside: str | None,
    ) -> Row:
        result = export_model(options, SILENT)
        logits = _logits_of(result.out)
        kl = {text: scored.compare(logits) for text, scored in floats.items()}
        return Row(OURS, name, result.quantization.size.bits_per_weight, kl, beside)


def _calibration_file(options: ExportOptions, checkpoint: Checkpoint, directory: Path) -> Path:
    """The text that both engines calibrate on, as a file."""
    text = with_own_text(read_plan(options, SILENT), SILENT)
    assert text.calibration is not None
    decode, path = load_tokenizer(checkpoint.directory).decode, directory / "calibration.txt"
    windows = [decode([id for id in row if id != text.bos_id]) for row in text.calibration.tolist()]
    path.write_text("\n".join(windows), encoding="utf-8")
    return path


def _logits_of(model: Path) -> Logits:
    return open_scored(str(model), RunAs(), lambda _: None).logits
