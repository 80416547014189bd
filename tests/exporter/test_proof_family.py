"""A family that nobody ships works throughout: GPTQ, one call of the CPU delegate, XNNPACK, and
lines in the profile; what it takes is one file, support/proof_family.py."""

from pathlib import Path

import pytest
from support.exported import Quiet
from support.proof_family import PROOF, write_checkpoint
from support.recorded_runs import record
from support.tiers import soaked_rows

from devtools.profile import load_profile
from exporter.catalogue.names import EMBEDDED
from exporter.options import ExportOptions
from exporter.pipeline import ExportResult, export_model
from quant.scheme import Scheme

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("proof"))


def export(checkpoint: Path, out: Path, delegate: str, scheme: Scheme) -> ExportResult:
    options = ExportOptions(
        model=str(checkpoint),
        out=out,
        scheme=scheme,
        tokenizer=EMBEDDED / "tokenizer.json",
        calibration_tokens=32 * 64,
        delegate=delegate,
        etrecord=out.with_suffix(".etrecord"),
        family=PROOF,
    )
    return export_model(options, Quiet())


def test_the_family_is_one_short_file() -> None:
    assert len((SUPPORT / "proof_family.py").read_text().splitlines()) <= 80


@pytest.mark.check
@pytest.mark.parametrize(
    ("delegate", "scheme"),
    [
        ("cpu", Scheme("gptq4")),
        *soaked_rows(
            [("xnnpack", Scheme("none")), ("xnnpack", Scheme("gptq4")), ("cpu", Scheme("none"))]
        ),
    ],
)
def test_it_is_exported_and_finds_eagers_logits(
    checkpoint: Path, tmp_path: Path, cpp_build: Path, delegate: str, scheme: Scheme
) -> None:
    result = export(checkpoint, tmp_path / "model.pte", delegate, scheme)
    assert result.agreement is not None
    assert result.agreement.error <= result.agreement.tolerance
    if scheme.name == "none":
        assert result.agreement.error < 1e-3
    delegation = result.delegation
    assert delegation.linears == delegation.linears_delegated == 4 * 7 + 1
    if delegate == "cpu":
        assert delegation.calls == 1 and not delegation.left
    etdump = record(cpp_build, result.out, tmp_path / "run.etdp")
    profile = load_profile(etdump, tmp_path / "model.etrecord")
    assert profile.coverage.delegate_time == profile.coverage.event_count == 1
    files = {event.lines[-1].file for call in profile.calls for event in call.events}
    assert any(file.endswith("exporter/models/mlp.py") for file in files)
