"""What the report says of the run itself, and whether the model beside it is the one that ran."""

import html
import re
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from click.testing import CliRunner, Result
from support.exported import Quiet
from support.recorded_runs import PROMPT, Recorded, etrecord_of, record

from devtools.commands.cli import main
from devtools.profile import Phase, Profile, load_profile
from devtools.profile.etdump import read_etdump
from devtools.report import make_page, numbers
from devtools.report.facts import run_facts
from devtools.report.program import read_program
from devtools.report.totals import scopes
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme
from runtime import Runner


@pytest.fixture(scope="module")
def profile(recorded: Recorded) -> Profile:
    return load_profile(*recorded("stories_cpu_pte"))


@pytest.fixture(scope="module")
def page(profile: Profile) -> str:
    return make_page(profile)


def test_the_run_is_described(profile: Profile, page: str, stories_cpu_pte: Path) -> None:
    facts = dict(run_facts(profile))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", facts["recorded"])
    assert facts["threads"] == "1" and facts["processor"] != "not recorded"
    assert re.fullmatch(r"scalar|avx2|avxvnni|avx512vnni|amx\w*|neon_\w+", facts["kernels"])
    tokens = profile.calls[0].seq_len
    assert facts["prompt"] == f"“{PROMPT}”, {tokens} tokens in 1 prefill call"
    assert "cache of" in facts["memory"] and facts["model"] == stories_cpu_pte.name
    assert profile.facts["model"] == str(stories_cpu_pte)
    for name, value in facts.items():
        assert f"<dt>{name}</dt><dd>{html.escape(value)}</dd>" in page


def recorded_facts(runner: Runner, prompt: str, etdump: Path) -> dict[str, str]:
    runner.truncate(0)
    runner.start_recording()
    list(runner.generate(prompt, max_new_tokens=1))
    names = [run.name for run in read_etdump(runner.stop_recording(etdump).path)]
    found = [name.removeprefix("fact ") for name in names if name.startswith("fact ")]
    return {fact.partition(" ")[0]: fact.partition(" ")[2] for fact in found}


def test_every_recording_tells_its_own_prompt(
    cpp_build: Path, stories_cpu_pte: Path, tmp_path: Path
) -> None:
    """Or its beginning, whatever it holds; the rest is alike, from Python too."""
    long, odd = "Once upon a time " * 65, 'a "quoted"\nlörd \x01'
    with Runner(stories_cpu_pte, threads=2) as runner:
        first = recorded_facts(runner, long, tmp_path / "run.etdp")
        last = recorded_facts(runner, odd, tmp_path / "run.etdp")
    assert first["prompt"] == long[:1024] and last["prompt"] == odd
    assert last["model"] == str(stories_cpu_pte) and last["threads"] == "2"
    assert last["fingerprint"] == read_program(stories_cpu_pte).fingerprint
    for key in ("model", "fingerprint", "threads", "runs_with", "processor"):
        assert first[key] == last[key]


def test_forced_kernels_are_named(cpp_build: Path, stories_cpu_pte: Path, tmp_path: Path) -> None:
    plain = {"THIMBLE_KERNELS": "scalar"}
    etdump = record(cpp_build, stories_cpu_pte, tmp_path / "run.etdp", 2, plain)
    facts = run_facts(load_profile(etdump, etrecord_of(stories_cpu_pte)))
    assert dict(facts)["kernels"] == "scalar"


@pytest.mark.check
def test_a_run_of_another_delegate_tells_what_it_can(recorded: Recorded) -> None:
    facts = dict(run_facts(load_profile(*recorded("stories_gptq_pte"))))
    assert facts["kernels"] == "XnnpackBackend" and facts["threads"] == "1"
    assert PROMPT in facts["prompt"] and "memory" not in facts


def test_what_was_not_recorded_is_said(profile: Profile) -> None:
    facts = dict(run_facts(replace(profile, facts={})))
    assert facts["recorded"] == facts["processor"] == "not recorded"
    assert facts["kernels"] == "ThimbleCpuBackend"
    assert facts["prompt"] == f"{profile.calls[0].seq_len} tokens in 1 prefill call"


def test_a_long_prompt_is_cut(profile: Profile) -> None:
    facts = {**profile.facts, "prompt": "one\n<two> " * 100}
    shown = dict(run_facts(replace(profile, facts=facts)))["prompt"]
    assert shown.startswith("“one <two> one") and "…”, " in shown and len(shown) < 210
    assert "<two>" not in make_page(replace(profile, facts=facts))


def test_one_figure_of_decoding(profile: Profile, page: str) -> None:
    """The median call's, wherever no other name stands beside it."""
    calls = profile.calls_of(Phase.DECODE)
    typical = median(call.wall_ns for call in calls)
    ranked = sorted(call.wall_ns for call in calls)
    text = " ".join(re.sub(r"<[^>]*>", " ", page).split())
    rate = f"{1e9 / typical:,.0f}"
    p90 = numbers.duration(ranked[-(-9 * len(ranked) // 10) - 1])
    assert f"{numbers.duration(typical)} median call: {rate} tokens/s in the model alone" in text
    assert f"; p90 {p90}" in text
    mean = numbers.duration(sum(ranked) / len(ranked))
    assert f"median call {numbers.duration(typical)}, mean {mean}, p90 {p90}" in text
    assert "a token" not in text.partition("Roofline")[0].rpartition("Prefill against decode")[2]


def test_outliers_are_marked(profile: Profile) -> None:
    decode = profile.calls_of(Phase.DECODE)
    typical = int(median(call.wall_ns for call in decode))
    even = [replace(call, end_ns=call.start_ns + typical) for call in decode]
    slow = replace(even[2], end_ns=even[2].start_ns + 3 * typical)
    calls = (*profile.calls_of(Phase.PREFILL), *even[:2], slow, *even[3:])
    changed = replace(profile, calls=calls)
    assert {scope.name: scope.outliers for scope in scopes(changed) if scope.name != "all"} == {
        "prefill": 0,
        "decode": 1,
    }
    page = make_page(changed)
    assert page.count('class="of-decode outlier"') == 1
    assert f"call {slow.index}: decode, {numbers.duration(3 * typical)}, an outlier" in page
    assert ", 1 outlier<" in page


@pytest.fixture(scope="module")
def two_exports(
    one_layer_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """One model and one graph in two quantizations."""
    directory = tmp_path_factory.mktemp("two")
    paths = []
    for scheme in (Scheme("rtn4", group_size=32), Scheme("rtn4", group_size=64)):
        out = directory / f"{scheme.group_size}.pte"
        options = ExportOptions(
            model=str(one_layer_checkpoint),
            out=out,
            etrecord=out.with_suffix(".etrecord"),
            scheme=scheme,
            delegate="cpu",
        )
        paths.append(export_model(options, Quiet()).out)
    return paths[0], paths[1]


def report(etdump: Path, etrecord: Path, pte: Path, out: Path) -> Result:
    words = ["report", etdump, "--etrecord", etrecord, "--pte", pte, "--out", out]
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.mark.check
def test_another_quantization_is_refused(
    two_exports: tuple[Path, Path], cpp_build: Path, tmp_path: Path
) -> None:
    ran, other = two_exports
    etdump, out = record(cpp_build, ran, tmp_path / "run.etdp", 2), tmp_path / "report.html"
    result = report(etdump, etrecord_of(ran), other, out)
    assert result.exit_code == 2 and not out.exists()
    assert result.stderr == (
        f"Error: {etdump} is of another export than {other}, such as one of other weights or of "
        "another quantization; give the .pte that ran.\n"
    )
    assert report(etdump, etrecord_of(ran), ran, out).exit_code == 0
    # The run itself says what ran: a record of the same graph, of any weights, has its lines.
    assert report(etdump, etrecord_of(other), ran, out).exit_code == 0


@pytest.mark.check
def test_a_run_that_does_not_tell_is_known_by_its_record(
    two_exports: tuple[Path, Path], cpp_build: Path, tmp_path: Path
) -> None:
    ran, other = two_exports
    etdump = record(cpp_build, ran, tmp_path / "run.etdp", 2)
    silent = replace(load_profile(etdump, etrecord_of(ran)), facts={})
    assert "Where the time goes" in make_page(silent, read_program(ran))
    with pytest.raises(Exception, match=r"64\.pte, such as one of other weights or of another"):
        make_page(silent, read_program(other))
