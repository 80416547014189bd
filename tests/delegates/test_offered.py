"""Delegates by name: the table of them, other packages' too, and what is refused before work."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.exported import Quiet

from delegates import DELEGATES, DelegateError, delegate_names, get_delegate
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = Path(__file__).parents[1] / "packages"


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package beside ours that offers delegates, as if it were installed."""
    monkeypatch.syspath_prepend(str(PACKAGES))


@pytest.mark.check
def test_another_packages_delegate_gets_the_same_treatment(
    offered: None, one_layer_checkpoint: Path, calibration_text: Path, tmp_path: Path
) -> None:
    options = ExportOptions(
        model=str(one_layer_checkpoint),
        out=tmp_path / "model.pte",
        scheme=Scheme("none"),
        calibration=calibration_text,
        max_context_len=64,
        delegate="portable",
    )
    result = export_model(options, Quiet())
    assert result.delegation.delegate == "portable"
    assert result.agreement is not None
    assert result.agreement.error <= result.agreement.tolerance
    with pytest.raises(
        DelegateError, match="portable supports weights of 32 bits, but these have 4"
    ):
        export_model(ExportOptions(options.model, options.out, delegate="portable"), Quiet())


def test_names(offered: None) -> None:
    assert delegate_names() == [*DELEGATES, "absent", "hollow", "portable"]
    for name in DELEGATES:
        assert get_delegate(name).LIMITS.name == name


def test_an_unknown_name(offered: None) -> None:
    with pytest.raises(DelegateError) as error:
        get_delegate("npu")
    assert str(error.value) == (
        f"delegate 'npu' is not known; it must be one of {', '.join(DELEGATES)}, absent, hollow, "
        "portable."
    )


def test_a_package_that_is_broken(offered: None) -> None:
    with pytest.raises(DelegateError) as error:
        get_delegate("absent")
    assert str(error.value) == (
        "delegate 'absent' (thimble_portable_absent) cannot be imported: No module named "
        "'thimble_portable_absent'; repair the package that provides it, or choose another "
        "--delegate."
    )
    with pytest.raises(DelegateError) as error:
        get_delegate("hollow")
    assert str(error.value).startswith("delegate 'hollow' (json) has no LIMITS and no lower;")


@pytest.mark.check
def test_the_list() -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "exporter", "--list-delegates"],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(PACKAGES), "COLUMNS": "160"},
        capture_output=True,
        text=True,
    )
    assert listed.returncode == 0 and listed.stderr == ""
    rows = {}
    for line in listed.stdout.splitlines():
        cells = [cell.strip() for cell in line.split("│")[1:-1]]
        if cells:
            rows[cells[0]] = cells[1:]
    for name in DELEGATES:
        limits = get_delegate(name).LIMITS
        here = limits.missing() is None
        assert rows[name] == [
            limits.runs_on,
            ", ".join(map(str, limits.weight_bits)),
            "any" if limits.dynamic else "one",
            "yes" if here else "no",
            "yes" if here and limits.checks() else "no",
        ]
        assert here or str(limits.missing()) in listed.stdout
    assert rows["portable"][1:] == ["32", "any", "yes", "yes"]
    assert rows["hollow"][-2:] == ["no", "no"]
    assert "delegate 'absent' (thimble_portable_absent) cannot be imported" in listed.stdout


def test_a_request_that_a_delegate_cannot_meet_is_refused_before_any_work(
    one_layer_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "model.pte"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    listener = Quiet()
    with pytest.raises(DelegateError, match="tosa-tools is not installed"):
        export_model(
            ExportOptions(str(one_layer_checkpoint), out, scheme=Scheme("none"), delegate="tosa"),
            listener,
        )
    assert listener.stages == [] and list(tmp_path.iterdir()) == []
