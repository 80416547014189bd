"""Modules that keep what they were given, view pictures, or take any number of inputs."""

from pathlib import Path

import pytest
import support.module_streams as streams
from support.exported import Quiet
from support.tiers import checked_rows

from exporter.module.options import ModuleOptions
from exporter.module.pipeline import export_module
from exporter.module.source_name import SourceName

SOURCE = Path(streams.__file__)


@pytest.mark.parametrize(
    ("name", "delegate", "quant"),
    [
        ("streaming", "cpu", "none"),
        ("viewing", "cpu", "none"),
        ("variable", "cpu", "none"),
        *checked_rows(
            [
                ("cell", "cpu", "none"),
                ("cell", "xnnpack", "none"),
                ("ring", "cpu,xnnpack", "none"),
                ("ring", "xnnpack", "none"),
                ("streaming", "xnnpack", "int8"),
                ("viewing", "xnnpack", "int8"),
                ("variable", "xnnpack", "int8"),
            ]
        ),
    ],
)
def test_a_module_is_exported(
    name: str, delegate: str, quant: str, tmp_path: Path, cpp_build: Path
) -> None:
    """The export itself compares three calls in a row with eager's."""
    options = ModuleOptions(SourceName(SOURCE, f"make_{name}"), tmp_path / "m.pte", quant, delegate)
    result = export_module(options, Quiet()).methods["forward"]
    assert result.agreement is not None
    assert result.agreement.error < (1e-5 if quant == "none" else 1e-2)
    assert name == "ring" or result.delegation.calls >= 1
