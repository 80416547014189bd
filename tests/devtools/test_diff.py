"""devtools diff: what became slower is found, noise is not, and the statistics are right."""

import itertools
import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.recorded_runs import etrecord_of, record

from devtools.commands.cli import main
from devtools.profile import Call, Event, Line, Phase, Profile, load_profile
from devtools.profile.difference import Verdict, compare_profiles, mann_whitney
from devtools.profile.rows import View

TOKENS = 24


@pytest.fixture(scope="module")
def runs(
    stories_cpu_pte: Path, cpp_build: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """One model twice as it is, and once with the plainest kernels."""
    directory = tmp_path_factory.mktemp("runs")
    plain = {"THIMBLE_KERNELS": "scalar"}
    return {
        "etrecord": etrecord_of(stories_cpu_pte),
        "a": record(cpp_build, stories_cpu_pte, directory / "a.etdp", TOKENS),
        "again": record(cpp_build, stories_cpu_pte, directory / "again.etdp", TOKENS),
        "plain": record(cpp_build, stories_cpu_pte, directory / "plain.etdp", TOKENS, plain),
    }


def diff(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["diff", *map(str, arguments)])


def changed(profile: Profile, factor: Callable[[Event], float]) -> Profile:
    """The profile with every event as long as `factor` makes it, one after the other."""
    calls = []
    for call in profile.calls:
        at, events = call.start_ns, []
        for event in call.events:
            end = at + max(1, round(event.duration_ns * factor(event)))
            events.append(replace(event, start_ns=at, end_ns=end))
            at = end
        (delegate,) = call.delegate_calls
        delegate = replace(delegate, start_ns=call.start_ns, end_ns=at)
        calls.append(
            Call(
                call.index, call.phase, call.seq_len, call.start_ns, at, tuple(events), (delegate,)
            )
        )
    return replace(profile, calls=tuple(calls))


def steady(profile: Profile, seed: int, slower: dict[str, float]) -> Profile:
    """Every decode call as long as the first, but for 2% of noise; some lines slower."""
    template = profile.calls_of(Phase.DECODE)[0]
    calls = [replace(template, index=index) for index in range(40)]
    chance = random.Random(seed)

    def factor(event: Event) -> float:
        assert event.line is not None
        longer = next((by for text, by in slower.items() if text in event.line.text), 1.0)
        return longer * chance.uniform(0.98, 1.02)

    return changed(replace(profile, calls=tuple(calls)), factor)


def test_finds_the_line_that_became_slower(runs: dict[str, Path]) -> None:
    profile = load_profile(runs["a"], runs["etrecord"])
    a = [steady(profile, 1, {}), steady(profile, 3, {})]
    b = steady(profile, 2, {"self.down_proj": 1.3, "self.o_proj": 0.7})
    (decode,) = compare_profiles(a, [b], View.LINE).phases
    verdicts = {
        change.line.text: change.verdict for change in decode.changes if change.line is not None
    }
    slower = [text for text, verdict in verdicts.items() if verdict is Verdict.SLOWER]
    faster = [text for text, verdict in verdicts.items() if verdict is Verdict.FASTER]
    assert len(slower) == 1 and "self.down_proj" in slower[0]
    assert len(faster) == 1 and "self.o_proj" in faster[0]
    assert set(verdicts.values()) == {Verdict.SLOWER, Verdict.FASTER, Verdict.SAME}
    first = decode.changes[0]
    assert first.line is not None and "self.down_proj" in first.line.text
    assert first.a_ns is not None and first.change_ns == pytest.approx(0.3 * first.a_ns, rel=0.1)


@pytest.mark.check
def test_noise_is_not_a_change(runs: dict[str, Path]) -> None:
    profile = load_profile(runs["a"], runs["etrecord"])
    for seed in range(5):
        a, b = steady(profile, 2 * seed, {}), steady(profile, 2 * seed + 1, {})
        (decode,) = compare_profiles([a], [b], View.LINE).phases
        assert {change.verdict for change in decode.changes} == {Verdict.SAME}


def test_a_side_that_moves_by_itself_hides_small_changes(runs: dict[str, Path]) -> None:
    """Two runs of A that differ by 20%: then 10% is no change, beyond chance as it is."""
    profile = load_profile(runs["a"], runs["etrecord"])
    a = [steady(profile, 1, {}), steady(profile, 2, {"self.down_proj": 1.2})]
    b = [steady(profile, 3, {"self.down_proj": 1.15})]
    (decode,) = compare_profiles(a, b, View.LINE).phases
    assert {change.verdict for change in decode.changes} == {Verdict.SAME}
    (decode,) = compare_profiles(a[:1], b, View.LINE).phases
    assert decode.changes[0].verdict is Verdict.MAYBE_SLOWER


@pytest.mark.check
def test_one_run_does_not_show_how_much_runs_differ(runs: dict[str, Path]) -> None:
    """So a change within the assumed 5% is none, and a note says what to do."""
    profile = load_profile(runs["a"], runs["etrecord"])
    slower = {"self.down_proj": 1.04}
    a = [steady(profile, seed, {}) for seed in range(3)]
    b = [steady(profile, seed, slower) for seed in range(3, 6)]
    difference = compare_profiles(a[:1], b[:1], View.LINE)
    assert {change.verdict for change in difference.phases[0].changes} == {Verdict.SAME}
    (note,) = difference.notes[-1:]
    assert note.startswith("A and B are one run only") and note.endswith("--again-a and --again-b")
    (note,) = compare_profiles(a[:1], b, View.LINE).notes[-1:]
    assert note.startswith("A is one run only")
    difference = compare_profiles(a, b, View.LINE)
    verdicts = [change.verdict for change in difference.phases[0].changes]
    assert verdicts.count(Verdict.SLOWER) == 1 and verdicts[0] is Verdict.SLOWER
    assert not any("one run only" in note for note in difference.notes)


def test_moved_lines_are_the_same_lines(runs: dict[str, Path]) -> None:
    profile = load_profile(runs["a"], runs["etrecord"])

    def moved(line: Line) -> Line:
        return replace(line, number=line.number + 7)

    calls = [
        replace(
            call,
            events=tuple(
                replace(
                    event,
                    lines=tuple(map(moved, event.lines)),
                    stack=tuple(map(moved, event.stack)),
                    shares=tuple(
                        replace(
                            share,
                            lines=tuple(map(moved, share.lines)),
                            stack=tuple(map(moved, share.stack)),
                        )
                        for share in event.shares
                    ),
                )
                for event in call.events
            ),
        )
        for call in profile.calls
    ]
    difference = compare_profiles([profile], [replace(profile, calls=tuple(calls))], View.LINE)
    for phase in difference.phases:
        allowed = {Verdict.SAME, Verdict.TOO_FEW}
        assert {change.verdict for change in phase.changes} <= allowed


def test_real_runs(runs: dict[str, Path], tmp_path: Path) -> None:
    """Plain loops instead of vector instructions: the products become slower, far beyond noise."""
    out = tmp_path / "out.json"
    outcome = diff(
        runs["a"],
        runs["plain"],
        "--etrecord",
        runs["etrecord"],
        "--again-a",
        runs["again"],
        "--json",
        out,
    )
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stderr == ""
    report = json.loads(out.read_text())
    assert report["coverage"] == {"a": 1.0, "b": 1.0}
    decode = report["phases"]["decode"]
    verdicts = {change["key"]: change["verdict"] for change in decode["changes"]}
    lines = {change["line"]["text"]: change for change in decode["changes"] if change["line"]}
    (head,) = [change for text, change in lines.items() if "self.head" in text]
    assert head["verdict"] == "slower" and head["change_ns"] > 0
    assert Verdict.SLOWER in verdicts.values()
    assert "decode: " in outcome.stdout and "slower" in outcome.stdout
    assert_figures_agree(outcome.stdout, sum(len(p["changes"]) for p in report["phases"].values()))
    for phase in report["phases"].values():
        for change in [phase["whole"], *phase["changes"]]:
            assert change["change_ns"] == change["b_ns"] - change["a_ns"]


def assert_figures_agree(text: str, rows: int) -> None:
    """Every percentage is what the two times beside it make, to half of the last digit shown."""
    whole = re.findall(r"^\w+: ([\d.]+) -> ([\d.]+) ms a call \([\w ]+, ([+-][\d.]+)%", text, re.M)
    lines = re.findall(r"^[a-z ]+?  +(\d+\.\d{6}) +(\d+\.\d{6}) +([+-][\d.]+)% ", text, re.M)
    assert re.search(r"^prefill: .* ms a call \(\w+ and \w+ calls: too few to judge\)$", text, re.M)
    assert len(whole) == 1 and len(lines) == rows
    for a, b, share in [*whole, *lines]:
        exact = (Fraction(b) / Fraction(a) - 1) * 100
        # Halfway, floats may round either way: their errors are below 1e-9.
        assert abs(Fraction(share) - exact) <= 0.05 + 1e-9 * abs(exact)


@pytest.mark.check
def test_modules_of_every_layer_are_compared_apart(runs: dict[str, Path]) -> None:
    pair = (runs["a"], runs["again"], "--etrecord", runs["etrecord"], "--by", "module")
    together, apart = diff(*pair), diff(*pair, "--every-layer", "--top", "0")
    assert "model.layers.*.mlp.up_proj" in together.stdout
    assert "model.layers.4.mlp.up_proj" in apart.stdout and "*" not in apart.stdout
    for outcome in (together, apart):
        assert re.search(r"noise, ms +module\n", outcome.stdout)


def test_prompts_of_different_lengths_are_not_compared(runs: dict[str, Path]) -> None:
    profile = load_profile(runs["a"], runs["etrecord"])
    prefill, *rest = profile.calls
    other = replace(profile, calls=(replace(prefill, seq_len=3), *rest))
    difference = compare_profiles([profile], [other], View.OP)
    assert [found.phase for found in difference.phases] == [Phase.DECODE]
    note, _ = difference.notes
    assert note.startswith(f"prefill is not compared: {prefill.seq_len} tokens in A, 3 tokens in B")


def test_runs_that_were_not_alike_are_noted(runs: dict[str, Path]) -> None:
    outcome = diff(runs["a"], runs["plain"], "--etrecord", runs["etrecord"])
    assert re.search(
        r"^A and B did not run alike: with kernels \w+, .+ in A, kernels scalar, .+ in B$",
        outcome.stdout,
        re.M,
    )
    profile = load_profile(runs["a"], runs["etrecord"])
    calls = [replace(call, seq_len=4) for call in profile.calls_of(Phase.DECODE)]
    facts = {**profile.facts, "adapter": "fr"}
    other = replace(profile, facts=facts, calls=(*profile.calls_of(Phase.PREFILL), *calls))
    notes = compare_profiles([profile], [other], View.OP).notes
    assert notes[:2] == (
        "A and B did not run alike: adapter none in A, fr in B",
        "calls of decode differ in their tokens, 1 in A and 4 in B: the times are those of calls, "
        "not of tokens",
    )
    assert not any(
        "alike" in note for note in compare_profiles([profile], [profile], View.OP).notes
    )


def test_a_run_counts_once(runs: dict[str, Path]) -> None:
    again = ("--again-a", runs["again"], "--again-a", runs["again"])
    outcome = diff(runs["a"], runs["plain"], "--etrecord", runs["etrecord"], *again)
    assert outcome.exit_code == 2 and outcome.stdout == ""
    assert outcome.stderr == (
        f"Error: {runs['again']} is given twice for one side; runs must be others, or their noise "
        "is 0.\n"
    )


def test_a_phase_that_one_side_has_not(runs: dict[str, Path]) -> None:
    profile = load_profile(runs["a"], runs["etrecord"])
    short = replace(profile, calls=profile.calls_of(Phase.PREFILL), etdump=Path("short.etdp"))
    difference = compare_profiles([profile, short], [profile], View.OP)
    assert [found.phase for found in difference.phases] == [Phase.PREFILL]
    assert difference.notes[0] == "decode is not compared: short.etdp holds only prefill (1)"
    note, _ = compare_profiles([short], [short], View.OP).notes
    assert note == "decode is not compared: short.etdp holds only prefill (1)"


def test_refuses_the_record_of_another_model(runs: dict[str, Path], embedded_cpu_pte: Path) -> None:
    other = etrecord_of(embedded_cpu_pte)
    outcome = diff(runs["a"], runs["again"], "--etrecord", runs["etrecord"], "--etrecord-b", other)
    assert outcome.exit_code == 2 and outcome.stdout == ""
    assert "was recorded from another program than" in outcome.stderr


def test_mann_whitney_counts_arrangements() -> None:
    """Against counting by hand in which orders U is as extreme, and against published values."""
    chance = random.Random(3)
    for n, m in ((4, 4), (3, 6), (5, 5)):
        values = chance.sample(range(100), n + m)
        a, b = values[:n], values[n:]

        def extreme(chosen: tuple[int, ...], pool: list[int] = values) -> int:
            rest = [value for value in pool if value not in chosen]
            u = sum(x > y for x in chosen for y in rest)
            return min(u, len(chosen) * len(rest) - u)

        observed = extreme(tuple(a))
        choices = list(itertools.combinations(values, n))
        share = sum(extreme(chosen) <= observed for chosen in choices) / len(choices)
        assert mann_whitney(a, b) == pytest.approx(share)
    # Complete separation of 4 from 4: 2 of 70 arrangements.
    assert mann_whitney([1, 2, 3, 4], [5, 6, 7, 8]) == pytest.approx(2 / 70)
    assert mann_whitney([1.0] * 30, [1.0] * 30) == 1
    # Many and tied: the normal approximation, ordered by how far they lie apart.
    near = mann_whitney([*range(30)], [value + 2 for value in range(30)])
    far = mann_whitney([*range(30)], [value + 12 for value in range(30)])
    assert 0 < far < 0.001 < near < 1
