"""Core ML: its operators' names lead to lines through the ETRecord, without a run."""

from pathlib import Path

import pytest
from support.core_ml_program import CoreMLProgram, read_core_ml
from support.decoder_specs import SMALL
from support.recorded_runs import write_pair
from support.small_models import random_model

from delegates.coreml import lower
from devtools.profile.attribution import Attributions
from devtools.profile.etrecord import read_etrecord
from exporter.capture.program import capture

# What each kind of module of a decoder becomes in Core ML's own language.
LINEARS = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"}


def computing(program: CoreMLProgram) -> list[tuple[str, str]]:
    """(name in a profile, kind) of each operation that is no constant."""
    return [
        (f"{operation.outputs[0].name}:{operation.type}", operation.type)
        for operation in program.operations
        if operation.outputs and not operation.type.startswith(("const", "read_state"))
    ]


@pytest.mark.soak
def test_every_operator_has_a_line(tmp_path: Path) -> None:
    lowered = lower(capture(random_model(SMALL), 40, 16), {}, {}, with_etrecord=True)
    write_pair(lowered, tmp_path)
    record = read_etrecord(tmp_path / "module.etrecord")
    (delegate,) = record.delegates.values()
    assert delegate.backend == "CoreMLBackend"
    program = read_core_ml(tmp_path / "module.pte", tmp_path / "core_ml")
    attributions = Attributions(record)
    modules: dict[str, str] = {}
    for name, kind in computing(program):
        found = attributions.of(delegate.handles[name])
        assert found.lines, name
        assert found.lines[0].file.startswith(("exporter/", "quant/")), name
        if kind in ("linear", "matmul") and found.op_kind == "linear":
            modules[name] = found.module_path.rpartition(".")[2]
            text = found.lines[0].text
            assert modules[name] in text or modules[name] == "lm_head" and "self.head" in text
    assert set(modules.values()) == LINEARS
    assert len(modules) == 7 * SMALL.num_hidden_layers + 1
