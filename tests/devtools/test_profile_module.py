"""Recorded runs of users' modules with their lines."""

from pathlib import Path

import pytest
import support.module_streams as streams
from support.exported import Quiet

from devtools.profile import load_profile
from exporter.module.options import ModuleOptions
from exporter.module.pipeline import export_module
from exporter.module.source_name import SourceName
from runtime import Program


@pytest.mark.check
def test_every_convolution_has_a_line(tmp_path: Path, cpp_build: Path) -> None:
    etrecord, etdump = tmp_path / "thin.etrecord", tmp_path / "thin.etdp"
    source = SourceName(Path(streams.__file__), "make_thin")
    export_module(ModuleOptions(source, tmp_path / "thin.pte", etrecord=etrecord), Quiet())
    with Program(tmp_path / "thin.pte") as program:
        program.start_recording()
        program(streams.make_thin()[1][0].numpy())
        program.stop_recording(etdump)
    profile = load_profile(etdump, etrecord)
    assert profile.coverage.event_count == profile.coverage.delegate_time == 1
    (call,) = profile.calls
    assert sum("Conv" in event.name or "GEMM" in event.name for event in call.events) == 8
