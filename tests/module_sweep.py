"""Exports classes of `transformers` as any module, beside its own exporter, and prints a table.

    python tests/module_sweep.py [NAME ...]

Each line has, of ours (`--delegate cpu`) and of `transformers.exporters` to XNNPACK: the largest
error as a share of the output's largest number, delegate calls, operators outside them, and the
median CPU time of a run in milliseconds. Runs of the two take turns; the last column is the median
of their ratios. `taskset -c 0` gives both one thread.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import support.transformers_modules as modules  # noqa: E402

from delegates.cpu import runs_modules  # noqa: E402
from delegates.executorch_runtime import open_module  # noqa: E402
from delegates.report import delegation_report  # noqa: E402
from exporter.command_line.quiet import silence_known_noise  # noqa: E402
from exporter.module.agreement import difference  # noqa: E402
from exporter.module.options import ModuleOptions  # noqa: E402
from exporter.module.pipeline import export_module  # noqa: E402
from exporter.module.source_name import SourceName  # noqa: E402

_SECONDS = 8.0  # of runs that are timed
Run = Callable[[Sequence[Tensor]], Sequence[Tensor]]


@dataclass(frozen=True)
class Exported:
    path: Path
    calls: int
    left: int


def ours(name: str, directory: Path) -> Exported:
    path = directory / "ours.pte"
    source = SourceName(Path(modules.__file__), f"make_{name}")
    made = export_module(ModuleOptions(source, path, delegate="cpu"))
    delegation = made.methods["forward"].delegation
    return Exported(path, delegation.calls, sum(delegation.left.values()))


def theirs(name: str, directory: Path) -> Exported:
    from transformers.exporters.exporter_executorch import ExecutorchConfig, ExecutorchExporter

    module, inputs = modules.make_named(name)
    model = module.model
    named = {model.main_input_name: inputs[0]}
    config = ExecutorchConfig(backend="xnnpack")
    exported = ExecutorchExporter().export(model, named, config=config)
    exported.save_pretrained(directory)
    report = delegation_report("", exported.program.exported_program().graph_module)
    return Exported(directory / "model.pte", report.calls, sum(report.left.values()))


def sweep(name: str, directory: Path) -> list[str]:
    """Returns the cells of a class's line, those of each exporter in one."""
    cells: dict[str, str] = {}
    exported: dict[str, Exported] = {}
    for make in (ours, theirs):
        try:
            exported[make.__name__] = make(name, directory)
        except Exception as error:
            reason = str(error).strip().partition("\n")[0][:120]
            cells[make.__name__] = f"not exported: {reason} | | |"
    cells |= _measured(name, exported)
    return [cells["ours"], cells["theirs"], cells.get("ratio", "")]


@torch.no_grad()
def _measured(name: str, exported: Mapping[str, Exported]) -> dict[str, str]:
    module, inputs = modules.make_named(name)
    want = module(*inputs)
    runs: dict[str, Run] = {}
    errors: dict[str, float] = {}
    for side, file in exported.items():
        assert runs_modules(), "build first: python -m runtime build"
        run = open_module(file.path)
        runs[side] = run
        errors[side] = difference(want, run(inputs)[0])
    times: dict[str, list[float]] = {side: [] for side in runs}
    end = time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        for side, run in runs.items():
            start = time.process_time()
            run(inputs)
            times[side].append(time.process_time() - start)
    cells = {
        side: f"{errors[side]:.0e} | {file.calls} | {file.left} | {median(times[side]) * 1e3:.1f}"
        for side, file in exported.items()
    }
    if len(times) == 2:
        pairs = zip(times["ours"], times["theirs"], strict=True)
        cells["ratio"] = f"{median(mine / others for mine, others in pairs):.2f}"
    return cells


def main(names: list[str]) -> int:
    silence_known_noise()
    print("| class | ours: error | calls | left | ms | theirs: error | calls | left | ms | ratio |")
    print("|" + "---|" * 10, flush=True)
    for name in names or list(modules.MODULES):
        with tempfile.TemporaryDirectory() as directory:
            print(f"| {name} | {' | '.join(sweep(name, Path(directory)))} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
