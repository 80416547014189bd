"""What this process has resident in memory."""

from pathlib import Path

import pytest

_STATUS = Path("/proc/self/status")
needs_proc = pytest.mark.skipif(not _STATUS.exists(), reason="resident memory is /proc's")


def resident_megabytes() -> float:
    """Of mapped files."""
    fields = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
    return int(fields["RssFile"].split()[0]) / 1024
