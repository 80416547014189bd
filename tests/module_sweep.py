"""Exports classes of `transformers` as any module, beside its own exporter, and prints a table.

    python tests/module_sweep.py [NAME ...]

Each line has, of ours (`--delegate cpu,xnnpack`) and of `transformers.exporters` to XNNPACK: the
largest error as a share of the output's largest number, delegate calls, operators outside them, and
the best time of one run in milliseconds.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import support.transformers_modules as modules  # noqa: E402

from delegates.cpu import load_module  # noqa: E402
from delegates.report import delegation_report  # noqa: E402
from exporter.command_line.quiet import silence_known_noise  # noqa: E402
from exporter.module.agreement import difference  # noqa: E402
from exporter.module.options import ModuleOptions  # noqa: E402
from exporter.module.pipeline import export_module  # noqa: E402
from exporter.module.source_name import SourceName  # noqa: E402

_SECONDS = 1.0  # of runs that are timed
Run = Callable[[Sequence[Tensor]], Sequence[Tensor]]


@dataclass(frozen=True)
class Row:
    error: float
    calls: int
    left: int
    milliseconds: float

    def __str__(self) -> str:
        return f"{self.error:.0e} | {self.calls} | {self.left} | {self.milliseconds:.1f}"


def ours(name: str, directory: Path) -> Row:
    path = directory / "ours.pte"
    source = SourceName(Path(modules.__file__), f"make_{name}")
    made = export_module(ModuleOptions(source, path, delegate="cpu,xnnpack"))
    delegation = made.methods["forward"].delegation
    return _measured(name, path, delegation.calls, sum(delegation.left.values()))


def theirs(name: str, directory: Path) -> Row:
    from transformers.exporters.exporter_executorch import ExecutorchConfig, ExecutorchExporter

    module, inputs = modules.make_named(name)
    model = module.model
    named = {model.main_input_name: inputs[0]}
    config = ExecutorchConfig(backend="xnnpack")
    exported = ExecutorchExporter().export(model, named, config=config)
    exported.save_pretrained(directory)
    report = delegation_report("", exported.program.exported_program().graph_module)
    return _measured(name, directory / "model.pte", report.calls, sum(report.left.values()))


@torch.no_grad()
def _measured(name: str, path: Path, calls: int, left: int) -> Row:
    module, inputs = modules.make_named(name)
    run: Run | None = load_module(path)
    assert run is not None, "build first: python -m runtime build"
    error = difference(module(*inputs), run(inputs)[0])
    best, end = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        run(inputs)
        best = min(best, time.perf_counter() - start)
    return Row(error, calls, left, best * 1e3)


def main(names: list[str]) -> int:
    silence_known_noise()
    print("| class | ours: error | calls | left | ms | theirs: error | calls | left | ms |")
    print("|" + "---|" * 9, flush=True)
    for name in names or list(modules.MODULES):
        cells = []
        for make in (ours, theirs):
            with tempfile.TemporaryDirectory() as directory:
                try:
                    cells.append(str(make(name, Path(directory))))
                except Exception as error:
                    reason = str(error).strip().partition("\n")[0][:120]
                    cells.append(f"not exported: {reason} | | |")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
