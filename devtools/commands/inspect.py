"""The inspect command: a recorded run by source line, module, operator or layer."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from devtools.bench.server import Server
from devtools.commands.bench import find_bench
from devtools.commands.failing import failing
from devtools.commands.inspect_tables import is_of, show
from devtools.commands.output import wide_console
from devtools.commands.requests import InspectRequest
from devtools.errors import BadRequest
from devtools.files import check_outputs, replacing
from devtools.profile.limits import Limits, load_limits
from devtools.profile.load import load_profile
from devtools.profile.profile_types import Phase, Profile
from devtools.profile.report import make_report
from devtools.profile.rows import View

_SMALLEST_READ = 1 << 20  # bytes, of a probe of memory


@failing()
def run_inspect(request: InspectRequest) -> None:
    """Reads the profile, writes the requested files, prints the table.

    Exits with 2 for unusable files or options, with 1 if the work failed.
    """
    inputs = (request.profile, request.etrecord, request.limits)
    check_outputs((request.json, request.csv), inputs)
    profile = load_profile(request.profile, request.etrecord)
    limits = _find_limits(request, profile)
    report = make_report(profile, limits)
    if request.json is not None:
        with replacing(request.json) as temporary:
            temporary.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if request.csv is not None:
        with replacing(request.csv) as temporary:
            _write_csv(report, request.view, request.phases, temporary)
    # In a file or a pipe, tables are not wrapped.
    console = wide_console()
    show(report, request.view, request.phases, request.top, console)


def _find_limits(request: InspectRequest, profile: Profile) -> Limits | None:
    if request.probe and request.limits is not None:
        raise BadRequest("--probe measures what --limits reads; use only one of them.")
    threads = profile.threads_or(request.threads)
    if request.limits is not None:
        return load_limits(request.limits, threads)
    if not request.probe:
        return None
    if threads is None:
        raise BadRequest(
            "The profile does not contain the number of threads; set it with --threads."
        )
    calls = profile.calls_of(Phase.DECODE) or profile.calls
    moved = sum(event.bytes_moved or 0 for event in calls[-1].events)
    with Server([find_bench(), "--limits", str(threads)], "the limits' probe") as machine:
        read = machine.ask("read", max(moved, _SMALLEST_READ))["bytes_per_s"]
        multiply = machine.ask("multiply")["operations_per_s"]
    return Limits(threads, read or None, multiply or None)


def _write_csv(report: dict[str, Any], view: View, phases: Sequence[Phase], path: Path) -> None:
    rows = [
        {
            "phase": phase,
            **{name: value for name, value in row.items() if name != "also"},
            "shared_with": " ".join(row["shared_with"]),
        }
        for phase, summary in report["phases"].items()
        for row in summary["by"][view]
    ]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))  # the names are those of any phase
        writer.writeheader()
        writer.writerows(row for row in rows if is_of(row["phase"], phases))
