"""The bench command: sets up engines, measures them in turns, shows and writes the results."""

import json
import sys
from pathlib import Path

from devtools.bench.measure import measure
from devtools.bench.plot import draw, require_plotting
from devtools.bench.report import make_report
from devtools.bench.workload import make_plan, make_sequences_plan
from devtools.commands.bench_tables import Display, show
from devtools.commands.failing import failing
from devtools.commands.output import wide_console
from devtools.commands.peers import PeerOptions
from devtools.commands.requests import BenchRequest
from devtools.commands.rivals import (
    GGUF_TYPES,
    RivalOptions,
    check_rival,
    default_cache,
    make_rivals,
    open_model,
)
from devtools.errors import BadRequest, DevtoolsError
from devtools.files import check_outputs, replacing
from exporter.catalogue.names import no_program


@failing()
def run_bench(request: BenchRequest) -> None:
    """Measures, prints the tables, writes the requested files.

    Exits with 2 if the request is not possible, with 1 if the work failed; files are written
    completely or not at all.
    """
    if not request.model.is_file():
        raise BadRequest(f"{no_program(request.model)}.")
    for name in request.against:
        check_rival(name, makes_gguf=not request.gguf)
    for path in request.gguf:
        if not path.is_file():
            raise BadRequest(f"{path} is not a file; name a GGUF model for llama-bench.")
    inputs = (request.model, *map(Path, request.against), *request.gguf)
    if request.sequences and request.quick:
        raise BadRequest("--sequences and --quick are different measurements; give one of them.")
    check_outputs((request.json, request.plot), inputs)
    if request.plot is not None:
        require_plotting(request.plot)
    bench = find_bench()
    options = RivalOptions(
        bench,
        request.kv_cache,
        request.huge_pages,
        PeerOptions(
            request.cache or default_cache(), request.gguf_type or GGUF_TYPES, request.gguf
        ),
    )
    with Display(sys.stderr) as display:
        ours, model = open_model(
            request.model.stem, request.model, bench, request.kv_cache, request.huge_pages
        )
        engines, models = [ours], {ours.name: model}
        for name in request.against:
            for engine, rival in make_rivals(name, request.model, model, options, display.note):
                if engine.name in (known.name for known in engines):
                    engine.name += f" ({len(engines) + 1})"
                engines.append(engine)
                if rival is not None:
                    models[engine.name] = rival
        common = (model.max_context_len, request.thread_counts, request.samples)
        if request.sequences:
            plan = make_sequences_plan(*common, request.sequences)
        else:
            plan = make_plan(*common, request.quick)
        for note in plan.notes:
            display.note(note)
        run = measure(model, engines, plan, bench, display)
    report = make_report(request.model, models, engines, plan, run)
    # In a file or a pipe, tables are not wrapped.
    show(report, wide_console())
    if request.json is not None:
        with replacing(request.json) as temporary:
            temporary.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if request.plot is not None:
        with replacing(request.plot) as temporary:
            draw(report, temporary)


def find_bench() -> Path:
    """Returns build/bench; builds it if it is missing."""
    from runtime.build import BUILD_DIR, build
    from runtime.errors import BuildError
    from runtime.executorch_package import show_programs_executorch

    program = BUILD_DIR / "bench"
    try:
        if not program.is_file():
            build()
        show_programs_executorch()
    except BuildError as error:
        raise DevtoolsError(str(error)) from None
    return program
