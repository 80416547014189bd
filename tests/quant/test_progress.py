"""Estimates of the time that is left."""

import pytest

from quant import progress
from quant.progress import Progress, ProgressMeter


def test_estimates_leave_out_what_had_another_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    reports: list[Progress] = []
    meter = ProgressMeter(100, reports.append)
    now = 30.0  # seconds to prepare
    meter.advance("ends", 0)
    meter.restart_estimate()
    now = 31.0
    meter.advance("first", 10)
    now = 31.5
    meter.advance("from the cache", 40)
    meter.restart_estimate()
    now = 32.5
    meter.advance("second", 10)
    assert [report.done for report in reports] == [0, 10, 50, 60]
    assert [report.seconds_left for report in reports] == [None, 9.0, 1.5, 4.0]
    assert meter.seconds == 32.5
