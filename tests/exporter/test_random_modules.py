"""Random modules, exported for the CPU delegate: each file computes what its module does."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.random_modules import Case, random_module
from support.tiers import checked, soaked
from torch.utils._pytree import tree_leaves

import exporter.module.pipeline as pipeline
from exporter.errors import ExportError
from exporter.module.agreement import difference
from exporter.module.options import ModuleOptions
from exporter.module.rounding import without_rounding
from exporter.module.samples import Sample
from exporter.module.source import Inputs, _read
from exporter.module.source_name import SourceName
from runtime import Program

_TOLERANCES = {torch.float16: 2e-2, torch.bfloat16: 1e-1}


def check(case: Case, path: Path, monkeypatch: pytest.MonkeyPatch, delegate: str = "cpu") -> None:
    made = {"forward": _read("random", case.made())}
    monkeypatch.setattr(pipeline, "make_methods", lambda source: made)
    options = ModuleOptions(SourceName(path, "make"), path, delegate=delegate)
    try:
        pipeline.export_module(options)  # which compares several inputs itself
    except ExportError as error:
        if "should vary more" in str(error):  # torch's own limit of a view
            return
        raise
    with Program(path) as program:
        for batch, layout in ((case.fixed or 3, "strided"), (case.fixed or 1, "last")):
            given = case.others(batch, layout)
            with torch.no_grad():
                want = tree_leaves(case.module(*given))
            arrays = [x.float() if x.dtype is torch.bfloat16 else x for x in given]
            found: Any = program(*(x.numpy() for x in arrays))
            got = list(found.values()) if isinstance(found, dict) else [found]
            for place, (expected, numbers) in enumerate(zip(want, got, strict=True)):
                most = _TOLERANCES.get(expected.dtype, 1e-4)
                wanted = expected.double().numpy()
                assert numbers.shape == wanted.shape
                apart = np.abs(numbers.astype(np.float64) - wanted).max()
                scale = max(np.abs(wanted).max(), 1e-6)
                if apart > most * scale and expected.dtype is torch.float32:
                    exact = without_rounding(case.module, True, Sample("", (Inputs(given),)))
                    assert exact is not None
                    most = min(8 * difference(expected.double(), exact[0][place]), 1e-2)
                assert apart <= most * scale, case.module.described()


# Without those whose views torch.export refuses.
CHOSEN, FURTHER = (0, 2, 3, 6), (5, *range(7, 12), 86, 269)
REST = sorted({*range(12, 400)} - {*FURTHER})


@pytest.mark.check
@pytest.mark.parametrize("seed", [*CHOSEN, *FURTHER, *soaked(REST)])
def test_a_random_module(
    seed: int, tmp_path: Path, cpp_build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(random_module(seed), tmp_path / "module.pte", monkeypatch)


@pytest.mark.parametrize("seed", [*checked((407,)), *soaked({*range(400, 600)} - {407})])
def test_a_random_module_of_two_delegates(
    seed: int, tmp_path: Path, cpp_build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(random_module(seed), tmp_path / "module.pte", monkeypatch, "cpu,xnnpack")
