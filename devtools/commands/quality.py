"""The quality command: our files and llama.cpp's of one model, on the same tokens."""

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from delegates import DelegateError
from devtools.bench.plot import require_plotting
from devtools.commands.bench_tables import Display
from devtools.commands.float_logits import FloatLogits, Logits
from devtools.commands.output import fail, table_console
from devtools.errors import BadRequest, DevtoolsError
from devtools.files import check_outputs, replacing, using_temporary_files
from devtools.quality.llama_cpp import CHUNK, FIRST, LlamaCpp
from devtools.quality.padded import write_padded
from devtools.quality.plot import draw_quality
from devtools.quality.rows import OURS, THEIRS, Row, table_of
from exporter.calibration import with_own_text
from exporter.checkpoint import Checkpoint
from exporter.errors import ExportError
from exporter.listener import SILENT
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from exporter.source import open_model
from exporter.text import prepare_text
from exporter.tokenizer import TokenizerError, load_tokenizer
from exporter.tokenizer.compile import read_specification
from quant.cache.store import Cache, default_size
from quant.commands.scored import open_scored
from quant.errors import QuantError
from quant.scheme import Scheme
from runtime.errors import BuildError, RunnerError


@dataclass(frozen=True)
class Request:
    """The arguments of the command line."""

    model: Path
    texts: tuple[Path, ...]
    tokens: int
    llama_cpp: Path
    types: tuple[str, ...]
    quant: tuple[str, ...]
    calibration: Path | None
    cache: Path
    threads: int
    json: Path | None
    plot: Path | None


def run_quality(request: Request) -> None:
    """Makes the files, scores them, prints the table, writes the requested files.

    Exits with 2 if the request is not possible, with 1 if the work failed.
    """
    try:
        _run_quality(request)
    except (BadRequest, ExportError, QuantError, TokenizerError, DelegateError) as error:
        fail(error, 2)
    except (DevtoolsError, RunnerError, BuildError) as error:
        fail(error, 1)


def _run_quality(request: Request) -> None:
    for path in (request.model, *request.texts):
        if not path.is_file():
            raise BadRequest(f"{path} is not a file.")
    check_outputs((request.json, request.plot), (request.model, *request.texts))
    if request.plot is not None:
        require_plotting(request.plot)
    tools = LlamaCpp(request.llama_cpp, request.threads)
    schemes = [Scheme(name) for name in request.quant]
    with (
        Display(sys.stderr) as display,
        using_temporary_files(),
        tempfile.TemporaryDirectory() as directory,
    ):
        rows = _rows(request, schemes, tools, display, Path(directory))
    names = [path.stem for path in request.texts]
    table_console().print(table_of(rows, names))
    if request.json is not None:
        with replacing(request.json) as path:
            path.write_text(json.dumps([row.to_dict() for row in rows], indent=1) + "\n")
    if request.plot is not None:
        with replacing(request.plot) as path:
            draw_quality(rows, names, request.model.stem, path)


def _rows(
    request: Request,
    schemes: Sequence[Scheme],
    tools: LlamaCpp,
    display: Display,
    directory: Path,
) -> list[Row]:
    floats, importance = directory / "floats.gguf", directory / "importance.gguf"
    options = ExportOptions(
        model=str(request.model),
        out=directory / "model.pte",
        calibration=request.calibration,
        max_context_len=CHUNK,
        cache=request.cache,
    )
    checkpoint = open_model(str(request.model))
    display.begin(2 + len(request.texts) + 2 * len(request.types) + len(request.quant))
    display.step("padding the model for llama.cpp")
    source = write_padded(request.model, floats)
    tokenizer = read_specification(checkpoint.directory)
    display.step("importance matrix")
    tools.importance(floats, _calibration_file(options, checkpoint, directory), importance)
    bases, texts = {}, {}
    for path in request.texts:
        display.step(f"float model on {path.name}")
        base = tools.base(floats, path, request.tokens // CHUNK, directory / f"{path.stem}.base")
        tokens = base.tokens.copy()
        if tokenizer.adds_bos and tokenizer.bos_id is not None:
            tokens[:, 0] = tokenizer.bos_id
        kept = directory / f"{path.stem}.logits"
        bases[path.stem] = base
        texts[path.stem] = FloatLogits(
            torch.from_numpy(tokens), FIRST, _logits_of(request.model), kept
        )
    rows = []
    for kind in request.types:
        display.step(f"llama.cpp {kind}")
        out = directory / "theirs.gguf"
        tools.quantize(floats, importance, kind, out)
        kl = {name: tools.score(out, base) for name, base in bases.items()}
        rows.append(Row(THEIRS, kind, source.bits(out), kl))
    wanted: list[tuple[str, ExportOptions, str | None]] = [
        *((scheme.name, replace(options, scheme=scheme), None) for scheme in schemes),
        *((f"{row.bits:.2f} bits", replace(options, bits=row.bits), row.name) for row in rows),
    ]
    for name, each, beside in wanted:
        display.step(f"thimble {name}")
        try:
            result = export_model(each, SILENT)
        except QuantError as error:  # too few bits
            display.note(f"thimble {name}: {error}")
            continue
        logits = _logits_of(result.out)
        kl = {text: scored.compare(logits) for text, scored in texts.items()}
        rows.append(Row(OURS, name, result.quantization.size.bits_per_weight, kl, beside))
    return rows


def _calibration_file(options: ExportOptions, checkpoint: Checkpoint, directory: Path) -> Path:
    """The text that both engines calibrate on, as a file."""
    assert options.cache is not None
    cache = Cache(options.cache, default_size())
    text = with_own_text(options, checkpoint, prepare_text(options, checkpoint), cache, SILENT)
    assert text.calibration is not None
    decode, path = load_tokenizer(checkpoint.directory).decode, directory / "calibration.txt"
    windows = [decode([id for id in row if id != text.bos_id]) for row in text.calibration.tolist()]
    path.write_text("\n".join(windows), encoding="utf-8")
    return path


def _logits_of(model: Path) -> Logits:
    return open_scored(str(model), "default", lambda _: None).logits
