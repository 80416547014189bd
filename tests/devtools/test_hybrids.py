"""Hybrids in the tools: every operator has its line, and states their memory."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.hybrid_models import HYBRIDS, shared_hybrid
from support.recorded_runs import etrecord_of, record
from support.tiers import checked

from devtools.commands.cli import main
from devtools.commands.compare import compare
from devtools.commands.requests import CompareRequest

LINES = {
    "short convolutions": "torch.ops.thimble.short_convolution(",
    "delta rule": "torch.ops.thimble.gated_delta_rule(",
    "shared keys": "torch.ops.thimble.shared_attention(",
}
LAYERS = {
    "short convolutions": [0, 1, 3],
    "delta rule": [0, 1, 2],
    "shared keys": [2, 3],
}  # with them


@pytest.fixture(scope="module", params=["shared keys", *checked(HYBRIDS)])
def hybrid(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cpp_build: Path
) -> tuple[str, Path]:
    return request.param, shared_hybrid(tmp_path_factory, request.param)


def run(*arguments: str | Path) -> Result:
    outcome = CliRunner().invoke(main, list(map(str, arguments)))
    assert outcome.exit_code == 0, outcome.output
    return outcome


@pytest.mark.check
def test_compare_finds_it_healthy(hybrid: tuple[str, Path]) -> None:
    name, pte = hybrid
    outcome = compare(CompareRequest(pte, str(pte.parent), None, None, 64, None))
    assert outcome.wrong is None and outcome.odd == []
    assert outcome.comparison.unmatched == []
    layers = [
        row.layer
        for row in outcome.comparison.rows
        if any(LINES[name] in line.text for line in row.sink.lines)
    ]
    assert layers == LAYERS[name]


@pytest.mark.check
def test_a_profile_shows_its_line(
    hybrid: tuple[str, Path], tmp_path: Path, cpp_build: Path
) -> None:
    name, pte = hybrid
    etdump = record(cpp_build, pte, tmp_path / "run.etdp")
    given = etdump, "--etrecord", etrecord_of(pte)
    run("inspect", *given, "--json", tmp_path / "out.json")
    phases = json.loads((tmp_path / "out.json").read_text())["phases"]
    for phase in ("prefill", "decode"):
        rows = phases[phase]["by"]["line"]
        assert any(LINES[name] in row["text"] for row in rows)
    run("report", *given, "--pte", pte, "--out", tmp_path / "page.html")
    assert LINES[name] in (tmp_path / "page.html").read_text()
