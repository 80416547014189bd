"""The trace of a recorded run, held to the rules of the Trace Event Format."""

import json
import subprocess
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.recorded_runs import PROMPT, TOKENS, etrecord_of
from support.tiers import checked

from devtools.commands.cli import main
from devtools.profile import Profile, load_profile
from devtools.trace import make_trace

NEEDED = {"X": {"ts", "dur", "tid", "args"}, "M": {"args"}}
FLOWS = {"s", "t", "f"}


@pytest.fixture(scope="module", params=["embedded_cpu_pte", *checked(["embedded_pte"])])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def trace(profile: Profile) -> list[dict[str, Any]]:
    return check_format(make_trace(profile))


def check_format(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """The trace as a viewer gets it, after what the format demands of every event."""
    read = json.loads(json.dumps(trace))
    assert set(read) <= {"traceEvents", "displayTimeUnit", "otherData"}
    assert read["displayTimeUnit"] in ("ms", "ns")
    events: list[dict[str, Any]] = read["traceEvents"]
    for event in events:
        assert event["ph"] in {"X", "M"} | FLOWS
        assert isinstance(event["name"], str) and event["name"] and event["pid"] == 1
        assert NEEDED.get(event["ph"], {"ts", "id", "tid"}) <= set(event)
        if event["ph"] != "M":
            assert event["ts"] >= 0
    named = {event["tid"] for event in events if event["name"] == "thread_name"}
    assert {event["tid"] for event in events if event["ph"] != "M"} == named
    for tid in named:
        check_nesting([event for event in events if event["ph"] == "X" and event["tid"] == tid])
    check_flows(events)
    return events


def check_nesting(slices: list[dict[str, Any]]) -> None:
    """Slices are listed by the time of their start; each ends within the one that it is in."""
    starts = [nanoseconds(item["ts"]) for item in slices]
    assert starts == sorted(starts)
    open_until: list[int] = []
    for item, start in zip(slices, starts, strict=True):
        end = start + nanoseconds(item["dur"])
        while open_until and open_until[-1] <= start:
            open_until.pop()
        assert item["dur"] >= 0
        assert not open_until or end <= open_until[-1], item
        if end > start:
            open_until.append(end)


def check_flows(events: list[dict[str, Any]]) -> None:
    """Each begins once, ends once, goes on in time, and every step lies in a slice."""
    flows = defaultdict(list)
    for event in events:
        if event["ph"] in FLOWS:
            flows[event["cat"], event["name"], event["id"]].append(event)
    slices = [event for event in events if event["ph"] == "X"]
    for steps in flows.values():
        assert [step["ph"] for step in steps] == ["s", *"t" * (len(steps) - 2), "f"]
        assert [step["ts"] for step in steps] == sorted(step["ts"] for step in steps)
        assert len({step["ts"] for step in steps}) == len(steps)
        assert steps[-1]["bp"] == "e"
        for step in steps:
            assert any(
                item["tid"] == step["tid"]
                and item["ts"] <= step["ts"] <= item["ts"] + item["dur"]
                and item["cat"] == "call"
                for item in slices
            )


def nanoseconds(microseconds: float) -> int:
    return round(microseconds * 1000)


def test_operators_lie_in_their_calls(trace: list[dict[str, Any]], profile: Profile) -> None:
    slices = [event for event in trace if event["ph"] == "X" and event["tid"] == 1]
    calls = [item for item in slices if item["cat"] == "call"]
    delegates = [item for item in slices if item["cat"] == "delegate"]
    operators = [item for item in slices if item["cat"] not in ("call", "delegate")]
    assert [item["args"]["call"] for item in calls] == list(range(TOKENS))
    assert [item["name"].split()[0] for item in calls] == ["prefill", *["decode"] * (TOKENS - 1)]
    assert len(delegates) == sum(len(call.delegate_calls) for call in profile.calls)
    assert len(operators) == sum(len(call.events) for call in profile.calls)

    def inside(item: dict[str, Any], around: list[dict[str, Any]]) -> bool:
        start, end = item["ts"], item["ts"] + item["dur"]
        slack = 1e-6  # of a microsecond, from decimals
        return any(
            other["ts"] - slack <= start and end <= other["ts"] + other["dur"] + slack
            for other in around
        )

    assert all(inside(item, calls) for item in (*delegates, *operators))
    own = [item for item in operators if item["cat"] != "runtime"]
    assert own and all(inside(item, delegates) for item in own)


def test_operators_tell_their_line_and_work(trace: list[dict[str, Any]], profile: Profile) -> None:
    heads = [event for event in trace if event["ph"] == "X" and event["name"] == "lm_head"]
    heads = [event for event in heads if event["args"]["op"] == "linear"]
    assert len(heads) == TOKENS
    for head in heads:
        arguments = head["args"]
        file, _, number = arguments["line"].rpartition(":")
        assert profile.sources[file].splitlines()[int(number) - 1].strip() == arguments["code"]
        assert "self.head" in arguments["code"]
        assert arguments["operations"] == 2 * 256 * 4096
        assert arguments["shape"][-1] == 4096 and arguments["dtype"] == "float32"
        assert arguments["bytes"] > 256 * 4096
    layers = {event["args"].get("layer") for event in trace if event["ph"] == "X"}
    assert layers == {None, 0, 1, 2, 3}


def test_a_fused_operator_tells_its_shares(
    trace: list[dict[str, Any]], profile: Profile, name: str
) -> None:
    found = [item["args"] for item in trace if "shares_ns" in item.get("args", {})]
    assert all(sum(item["shares_ns"].values()) == item["duration_ns"] for item in found)
    fused = [event for call in profile.calls for event in call.events if event.shares]
    assert len(found) == len(fused)
    products = {
        place.partition(",")[0].rpartition(".")[2] for i in found for place in i["shares_ns"]
    }
    assert name == "embedded_pte" or {"q_proj", "k_proj", "v_proj", "up_proj"} <= products


def test_tokens_are_steps_of_one_flow(trace: list[dict[str, Any]]) -> None:
    steps = [event for event in trace if event["ph"] in FLOWS]
    assert [step["args"]["step"] for step in steps] == list(range(TOKENS))
    assert len({step["id"] for step in steps}) == 1


def test_every_new_prompt_begins_a_flow(profile: Profile) -> None:
    again = tuple(
        replace(call, index=call.index + TOKENS, start_ns=call.start_ns + 10**10, end_ns=end)
        for call in profile.calls
        for end in [call.end_ns + 10**10]
    )
    later = tuple(replace(call, events=(), delegate_calls=()) for call in again)
    events = check_format(make_trace(replace(profile, calls=(*profile.calls, *later))))
    assert {event["id"] for event in events if event["ph"] in FLOWS} == {1, 2}


def test_a_call_alone_has_no_flow(profile: Profile) -> None:
    events = check_format(make_trace(replace(profile, calls=profile.calls[:1])))
    assert not [event for event in events if event["ph"] in FLOWS]


def test_times_rounded_up_stay_in_their_call(profile: Profile) -> None:
    """XNNPACK's whole microseconds may add up to more than its call took."""

    def late(call: Any) -> Any:
        events = [
            replace(event, end_ns=event.end_ns + 50_000) if event.backend else event
            for event in call.events
        ]
        return replace(call, events=tuple(events))

    check_format(make_trace(replace(profile, calls=tuple(late(call) for call in profile.calls))))


def test_threads_of_the_team_have_tracks(
    embedded_cpu_pte: Path, cpp_build: Path, tmp_path: Path
) -> None:
    etdump = tmp_path / "run.etdp"
    command = [cpp_build / "runner", embedded_cpu_pte, "-p", PROMPT, "-n", "2", "--threads", "2"]
    subprocess.run([*command, "--etdump", etdump], check=True, capture_output=True, timeout=100)
    profile = load_profile(etdump, etrecord_of(embedded_cpu_pte))
    events = check_format(make_trace(profile))
    tracks = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert tracks == ["calling thread", "delegate's thread 2"]
    shared = [event for call in profile.calls for event in call.events if event.threads == 2]
    second = [event for event in events if event["ph"] == "X" and event["tid"] == 2]
    assert len(second) == len(shared) > 0


def test_the_command_writes_it(pte: Path, etdump: Path, tmp_path: Path) -> None:
    out = tmp_path / "trace.json"
    arguments = ["trace", str(etdump), "--etrecord", str(etrecord_of(pte)), "--out", str(out)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    events = check_format(json.loads(out.read_text(encoding="utf-8")))
    assert f"{len(events):,} events of {TOKENS} calls; the line is known of 100.0%" in result.output


def test_what_it_refuses(pte: Path, etdump: Path, tmp_path: Path) -> None:
    def refused(profile: Path, out: Path) -> str:
        arguments = ["trace", str(profile), "--etrecord", str(etrecord_of(pte)), "--out", str(out)]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 2
        assert result.stderr.startswith("Error: ") and result.stderr.count("\n") == 1
        return result.stderr

    out = tmp_path / "trace.json"
    assert "is a directory; name a file to write" in refused(etdump, tmp_path)
    cut = tmp_path / "cut.etdp"
    cut.write_bytes(etdump.read_bytes()[:-100])
    assert "copy it again, or record it again" in refused(cut, out)
    assert "is not an ETDump" in refused(pte, out)
    assert "does not end in .json; name a" in refused(etdump, tmp_path / "trace.html")
    assert not out.exists()
