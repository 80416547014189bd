"""devtools inspect: the slow line comes first, coverage heads the report, bounds, and refusals."""

import csv
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch
from click.testing import CliRunner, Result
from rich.console import Console
from support.recorded_runs import PROMPT, Recorded, record_module, seeded
from torch import Tensor, nn

from devtools.commands.cli import main
from devtools.commands.inspect_tables import show
from devtools.errors import BadRequest
from devtools.profile import Phase, load_profile
from devtools.profile.limits import Bound, Limits, Resource, find_bound, load_limits
from devtools.profile.report import make_report
from devtools.profile.rows import View, make_rows

BENCH_JSON = {
    "limits": [
        {"threads": 1, "read_bytes_per_s": 20e9, "int8_operations_per_s": 400e9, "int8_unit": "x"},
        {"threads": 2, "read_bytes_per_s": 30e9, "int8_operations_per_s": None, "int8_unit": ""},
    ]
}


@pytest.fixture(scope="module")
def pair(recorded: Recorded) -> tuple[str, str]:
    """A run of stories260K through the CPU delegate, and its ETRecord."""
    etdump, etrecord = recorded("stories_cpu_pte")
    return str(etdump), str(etrecord)


def inspect(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["inspect", *map(str, arguments)])


class Slow(nn.Module):
    """A feed-forward layer with one line that someone should have noticed."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(32, 64)
        self.down = nn.Linear(64, 32)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.sigmoid(self.up(x))
        table = torch.sin(x[:, :1, :1] * torch.arange(400_000.0)).sum(-1)  # the slow line
        return self.down(hidden) + table[:, :, None]


@pytest.mark.check
def test_the_slow_line_is_first(tmp_path: Path) -> None:
    etdump, etrecord = record_module(Slow(), (seeded(1, 8, 32),), tmp_path)
    outcome = inspect(etdump, "--etrecord", etrecord, "--json", tmp_path / "out.json")
    assert outcome.exit_code == 0, outcome.output
    report = json.loads((tmp_path / "out.json").read_text())
    for phase in ("prefill", "decode"):
        first = report["phases"][phase]["by"]["line"][0]
        assert first["text"].endswith("# the slow line")
        assert first["file"].endswith(Path(__file__).name)
        rows = [row for row in report["phases"][phase]["by"]["line"] if row["text"]]
        assert first["median_ns"] > 3 * max(row["median_ns"] for row in rows[1:])
    assert report["coverage"]["event_count"] == 1
    tables = outcome.stdout.split("  code")[1:]
    assert len(tables) == 2
    for table in tables:
        assert "torch.sin" in table.splitlines()[1]


def test_coverage_heads_every_report(pair: tuple[str, str], tmp_path: Path) -> None:
    for view in ("line", "module", "op", "layer"):
        outcome = inspect(pair[0], "--etrecord", pair[1], "--by", view)
        assert outcome.exit_code == 0, outcome.output
        first = outcome.stdout.splitlines()[0]
        assert first.startswith(
            "coverage: the line is known of 100.0% of the time inside ThimbleCpuBackend and of "
            "100.0% of the events ("
        )
        assert "of the calls' time" in first
        assert not any(line.endswith(" ") for line in outcome.stdout.splitlines())
        assert "self and total are shares of all calls' time; the median is of one call." in (
            outcome.stdout
        )
        assert ("with: lines" in outcome.stdout) == (view == "line")
        assert ("linear (preparing its input)\n" in outcome.stdout) == (view == "op")
    outcome = inspect(pair[0], "--etrecord", pair[1], "--json", tmp_path / "out.json")
    coverage = json.loads((tmp_path / "out.json").read_text())["coverage"]
    assert coverage["delegate_time"] == coverage["event_count"] == 1
    assert 0 < coverage["call_time"] <= 1
    assert coverage["unresolved"] == []
    run = json.loads((tmp_path / "out.json").read_text())["run"]
    assert run["prompt"] == PROMPT and run["threads"] == "1" and run["date"].endswith("Z")


@pytest.mark.check
def test_a_record_of_another_export_is_noted(pair: tuple[str, str], tmp_path: Path) -> None:
    """Of the same graph: its lines may be others, which ids do not tell."""
    other = tmp_path / "other.etrecord"
    shutil.copy(pair[1], other)
    with ZipFile(other, "a") as archive:
        assert archive.comment.isdigit()
        archive.comment = b"1"
    note = f"note: {pair[0]} ran another export than that of {other}. "
    commands = [["inspect"], ["trace", "--out", tmp_path / "x.json"], ["diff", pair[0]]]
    for command in [*commands, ["report", "--out", tmp_path / "x.html"]]:
        for record in (other, pair[1]):
            words = [*command, pair[0], "--etrecord", record]
            outcome = CliRunner().invoke(main, [str(word) for word in words])
            assert outcome.exit_code == 0, outcome.output
            assert outcome.output.replace("\n", " ").count(note) == (record is other)


def test_json_adds_up(pair: tuple[str, str], tmp_path: Path) -> None:
    inspect(pair[0], "--etrecord", pair[1], "--json", tmp_path / "out.json")
    report = json.loads((tmp_path / "out.json").read_text())
    assert list(report["phases"]) == ["prefill", "decode"]
    for phase in report["phases"].values():
        parts = ("attributed", "unattributed", "delegate_overhead", "runtime_overhead")
        assert sum(phase[f"{part}_ns"] for part in parts) == phase["wall_ns"]
        for rows in phase["by"].values():
            assert sum(row["self_ns"] for row in rows) == phase["wall_ns"]
            assert sum(row["self_share"] for row in rows) == pytest.approx(1)
            assert all(row["verdict"] is None for row in rows)  # no limits were given


@pytest.mark.check
def test_work_adds_up_to_the_same_in_every_view(recorded: Recorded) -> None:
    """Also that of operators whose time the backend rounded down to nothing."""
    profile = load_profile(*recorded("embedded_pte"))
    calls = [
        replace(call, events=tuple(replace(event, end_ns=event.start_ns) for event in call.events))
        for call in profile.calls
    ]
    for changed in (profile, replace(profile, calls=tuple(calls))):
        for phase, facts in make_report(changed, None)["phases"].items():
            events = [event for call in changed.calls_of(Phase(phase)) for event in call.events]
            for name in ("bytes_moved", "operations"):
                known = [
                    getattr(event, name)
                    for event in events
                    if event.bytes_moved is not None and event.operations is not None
                ]
                for rows in facts["by"].values():
                    assert sum(row[name] or 0 for row in rows) == sum(known) > 0


def test_a_row_that_one_call_made_costly_is_not_left_out(pair: tuple[str, str]) -> None:
    """The first column shows its share of the sum; its place is still that of its median."""
    report = make_report(load_profile(*map(Path, pair)), None)
    rows = report["phases"]["decode"]["by"]["op"]
    events = [row for row in rows if row["kind"] == "events"]
    events[-1].update(self_ns=10**12, self_share=0.9, key="late")
    for top, names in ((1, ["late"]), (2, None)):
        console = Console(width=300, record=True, file=StringIO())
        show(report, View.OP, [Phase.DECODE], top, console)
        lines = [line.rstrip() for line in console.export_text().splitlines()]
        heading = next(number for number, line in enumerate(lines) if line.endswith("operator"))
        shown = [line.split()[-1] for line in lines[heading + 1 : heading + 1 + top]]
        assert shown[-1] == "late" and (names is None or shown == names), lines
        assert lines[heading + 1 + top].endswith(" more")


def test_no_calls_have_no_rows() -> None:
    assert all(make_rows((), view) == [] for view in View)


def test_csv_is_the_view(pair: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    outcome = inspect(pair[0], "--etrecord", pair[1], "--by", "op", "--csv", path)
    assert outcome.exit_code == 0, outcome.output
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["phase"] for row in rows} == {"prefill", "decode"}
    assert {"linear", "attention", "embedding"} <= {row["key"] for row in rows}
    assert all(int(row["self_ns"]) <= int(row["total_ns"]) for row in rows)
    inspect(pair[0], "--etrecord", pair[1], "--by", "module", "--csv", path)
    with open(path, newline="") as file:
        shared = {row["key"]: row["shared_with"] for row in csv.DictReader(file)}
    assert shared["model.layers.*.mlp.up_proj"] == "model.layers.*.mlp.gate_proj"
    assert shared["lm_head"] == ""


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_csv_holds_the_phase_alone(pair: tuple[str, str], tmp_path: Path, phase: str) -> None:
    path = tmp_path / "out.csv"
    outcome = inspect(pair[0], "--etrecord", pair[1], "--phase", phase, "--csv", path)
    assert outcome.exit_code == 0, outcome.output
    with open(path, newline="") as file:
        assert {row["phase"] for row in csv.DictReader(file)} == {phase}


def test_says_that_a_phase_is_absent(tmp_path: Path) -> None:
    etdump, etrecord = record_module(nn.Linear(4, 4), (seeded(1, 2, 4),), tmp_path, calls=1)
    path = tmp_path / "out.csv"
    outcome = inspect(etdump, "--etrecord", etrecord, "--phase", "decode", "--csv", path)
    assert outcome.exit_code == 0, outcome.output
    last = outcome.stdout.splitlines()[-1]
    assert last == "The recording has no decode calls, only prefill (1)."
    assert path.read_text().startswith("phase,key,") and path.read_text().count("\n") == 1


def test_says_what_bounds_each_line(pair: tuple[str, str], tmp_path: Path) -> None:
    """The share is the time that the slower of both limits would take, over the time it took."""
    limits = tmp_path / "bench.json"
    limits.write_text(json.dumps(BENCH_JSON))
    out = tmp_path / "out.json"
    outcome = inspect(pair[0], "--etrecord", pair[1], "--limits", limits, "--json", out)
    assert outcome.exit_code == 0, outcome.output
    assert "limits, 1 thread: reads 20.0 GB/s, multiplies int8 at 400 GOPS" in outcome.stdout
    report = json.loads(out.read_text())
    assert report["limits"]["bytes_per_s"] == 20e9
    rows = report["phases"]["decode"]["by"]["line"]
    (head,) = [row for row in rows if "self.head" in row["text"]]
    assert head["bound"] == "memory"
    seconds = head["bytes_moved"] / 20e9
    assert seconds > head["operations"] / 400e9
    took = head["median_ns"] * report["phases"]["decode"]["calls"] * 1e-9
    assert head["share_of_limit"] == pytest.approx(seconds / took, rel=1e-3)
    assert head["verdict"] in outcome.stdout


def test_bounds() -> None:
    limits = Limits(1, 10e9, 100e9)
    # 1 ms: 5 MB of 10 that were possible; 90 M operations of 100.
    assert find_bound(1_000_000, 5_000_000, 1_000_000, limits) == Bound(Resource.MEMORY, 0.5)
    compute = find_bound(1_000_000, 5_000_000, 90_000_000, limits)
    assert compute is not None
    assert compute.text == "compute-bound, 90% of the limit"
    cached = find_bound(1_000_000, 25_000_000, None, limits)
    assert cached is not None
    assert cached.text == "read from caches at 2.5 times the memory's rate"
    assert find_bound(1_000_000, None, None, limits) is None
    assert find_bound(0, 1, 1, limits) is None
    assert find_bound(1_000_000, 1, 1, None) is None
    assert find_bound(1_000_000, None, 5, Limits(1, 10e9, None)) is None


def test_probes_this_machine(pair: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    outcome = inspect(pair[0], "--etrecord", pair[1], "--probe", "--json", out)
    assert outcome.exit_code == 0, outcome.output
    limits = json.loads(out.read_text())["limits"]
    assert limits["threads"] == 1 and limits["bytes_per_s"] > 1e8


def test_the_threads_of_a_run_are_its_own(pair: tuple[str, str]) -> None:
    outcome = inspect(pair[0], "--etrecord", pair[1], "--probe", "--threads", "2")
    assert outcome.exit_code == 2 and outcome.stdout == ""
    assert outcome.stderr == (
        f"Error: {pair[0]} was recorded with --threads 1, not 2; leave it out.\n"
    )


def test_refuses_limits_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "limits.json"
    path.write_text(json.dumps(BENCH_JSON))
    assert load_limits(path, 2) == Limits(2, 30e9, None)
    with pytest.raises(BadRequest, match="limits for 1, 2 threads, but the run used 4; measure"):
        load_limits(path, 4)
    with pytest.raises(BadRequest, match="does not contain the number of threads.*--threads"):
        load_limits(path, None)
    path.write_text("{}")
    with pytest.raises(BadRequest, match="has no limits of a machine; give what"):
        load_limits(path, 1)
    with pytest.raises(BadRequest, match="cannot be read"):
        load_limits(tmp_path / "absent", 1)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"limits": []}',
        '{"limits": [1]}',
        *(
            f'{{"limits": [{{"threads": {threads}, "read_bytes_per_s": {read}, '
            f'"int8_operations_per_s": {multiply}}}]}}'
            for threads, read, multiply in (
                ("1", '"x"', "null"),
                ("1", "NaN", "null"),
                ("1", "null", "-1"),
                ("1", "Infinity", "null"),
                ("1", "1" + 400 * "0", "null"),
                ("1", "[]", "null"),
                ('"1"', "1e9", "null"),
                ("null", "1e9", "null"),
            )
        ),
        10000 * "[",
        "\ufeff{}",
    ],
)
def test_refuses_limits_that_are_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "limits.json"
    path.write_text(text)
    with pytest.raises(BadRequest) as error:
        load_limits(path, 1)
    assert str(error.value) == (
        f"{path} has no limits of a machine; give what thimble-devtools bench --json wrote."
    )


def test_refusals_are_one_sentence(pair: tuple[str, str], tmp_path: Path) -> None:
    cut = tmp_path / "cut.etdp"
    cut.write_bytes(Path(pair[0]).read_bytes()[:-100])
    cases: list[tuple[list[str | Path], str]] = [
        ([cut, "--etrecord", pair[1]], "is cut: it holds"),
        ([pair[0], "--etrecord", pair[0]], "is not an ETRecord; name the file"),
        ([pair[1], "--etrecord", pair[1]], "is not an ETDump; name the file"),
        ([tmp_path / "none", "--etrecord", pair[1]], "cannot be read (No such file"),
        ([*pair[:1], "--etrecord", pair[1], "--json", tmp_path], "is a directory; name a file"),
        ([*pair[:1], "--etrecord", pair[1], "--probe", "--limits", cut], "use only one of them"),
    ]
    for arguments, sentence in cases:
        outcome = inspect(*arguments)
        assert outcome.exit_code == 2, outcome.output
        assert outcome.stdout == ""
        assert outcome.stderr.count("\n") == 1 and sentence in outcome.stderr
        assert outcome.stderr.startswith("Error: ")


def test_needs_neither_torch_nor_executorch(pair: tuple[str, str]) -> None:
    """A profile of any model opens at once, with nothing on standard error."""
    code = (
        "import sys; from devtools.commands.cli import main; "
        f"main(['inspect', {pair[0]!r}, '--etrecord', {pair[1]!r}], standalone_mode=False); "
        "assert not {'torch', 'executorch', 'pandas'} & set(sys.modules)"
    )
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stderr == ""
    assert "exporter/models/" in outcome.stdout
