"""The report of a recorded run: what the page says is what the profile says."""

import html
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from statistics import median

import numpy
import pytest
from click.testing import CliRunner
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.schema import DelegateCall, KernelCall, Tensor
from support.recorded_runs import Recorded, etrecord_of
from support.slow_line import SLOW, record_slow_line
from support.tiers import checked

from devtools.commands.cli import main
from devtools.errors import BadRequest
from devtools.profile import Line, Phase, Profile, load_profile
from devtools.profile.limits import Limits
from devtools.profile.rows import View, make_rows
from devtools.report import make_page, numbers
from devtools.report.memory import plan_timeline, workspaces
from devtools.report.op_list import Operator, OpList
from devtools.report.program import read_program

MODELS = ["embedded_cpu_pte", *checked(["embedded_pte"])]
LIMITS = Limits(1, 35e9, 469e9)


class Tables(HTMLParser):
    """The cells of every table by its caption, and the page's scope that it is shown in."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[tuple[str, str], list[list[str]]] = {}
        self._scope, self._caption, self._rows = "", "", list[list[str]]()
        self._text: list[str] | None = None

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        classes = (dict(attributes).get("class") or "").split()
        if tag == "div":
            self._scope = next((name[3:] for name in classes if name.startswith("in-")), "")
        elif tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("th", "td", "caption"):
            self._text = []

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("th", "td", "caption") and self._text is not None:
            text = " ".join("".join(self._text).split())
            self._text = None
            if tag == "caption":
                self._caption = text
            else:
                self._rows[-1].append(text)
        elif tag == "table":
            self.found[self._caption.split(" in ")[0], self._scope] = self._rows[1:]


def tables(page: str) -> dict[tuple[str, str], list[list[str]]]:
    parser = Tables()
    parser.feed(page)
    return parser.found


@pytest.fixture(scope="module", params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def page(profile: Profile, pte: Path) -> str:
    return make_page(profile, read_program(pte), LIMITS)


@pytest.mark.parametrize("phase", (Phase.PREFILL, Phase.DECODE))
def test_slowest_lines_are_the_profiles(page: str, profile: Profile, phase: Phase) -> None:
    """In the order of `devtools inspect`, by the median call."""
    calls = profile.calls_of(phase)
    expected = [row for row in make_rows(calls, View.LINE) if row.line and row.self_ns > 0]
    shown = tables(page)["Lines by their own time", phase.value]
    wall = median(call.wall_ns for call in calls)
    assert len(shown) == min(15, len(expected))
    for cells, row in zip(shown, expected, strict=False):
        assert cells[1] == numbers.duration(row.median_ns)
        assert cells[2] == numbers.percent(row.median_ns / wall)
        assert row.line is not None and (row.median_ns == 0 or cells[0].startswith(row.key))
    assert cells_of_lines(shown[:3]) == cells_of_lines(
        [[f"{row.key}{row.line.text}"] for row in expected[:3] if row.line]
    )


def cells_of_lines(rows: list[list[str]]) -> list[str]:
    return ["".join(row[0].split()) for row in rows]


def test_the_complete_run_is_summed_up(page: str, profile: Profile) -> None:
    rows = [row for row in make_rows(profile.calls, View.LINE) if row.line and row.self_ns > 0]
    rows.sort(key=lambda row: -row.self_ns)
    shown = tables(page)["Lines by their own time", "all"]
    wall = sum(call.wall_ns for call in profile.calls)
    for cells, row in zip(shown, rows, strict=False):
        assert cells[2] == numbers.percent(row.self_ns / wall)
    assert cells_of_lines(shown[:1]) == cells_of_lines([[f"{rows[0].key}{rows[0].line.text}"]])  # type: ignore[union-attr]


def test_wall_time_is_accounted_for(page: str, profile: Profile) -> None:
    rows = tables(page)["Where all of the wall time is", ""]
    calls = profile.calls
    expected = [
        sum(call.attributed_ns for call in calls),
        sum(call.unattributed_ns for call in calls),
        sum(call.delegate_overhead_ns for call in calls),
        sum(call.runtime_overhead_ns for call in calls),
        sum(call.wall_ns for call in calls),
    ]
    assert sum(expected[:-1]) == expected[-1]
    shown = [row[1] for row in rows]
    assert shown == ["−" * (time < 0) + numbers.duration(abs(time)) for time in expected]


def test_source_is_there_with_its_shares(page: str, profile: Profile) -> None:
    """Every line of every file; the slowest with its share in the margin."""
    assert "exporter/models/decoder.py" in profile.sources
    codes = re.findall(r"<code>([^<]*)</code></(?:summary|div)>", page)
    kept = sum(len(text.splitlines()) for text in profile.sources.values())
    assert len(codes) == kept
    for line in profile.sources["exporter/models/decoder.py"].splitlines():
        assert (html.escape(line, quote=True).replace("&#x27;", "&#39;") or " ").replace(
            "&quot;", "&#34;"
        ) in codes
    slowest = max(
        (row for row in make_rows(profile.calls, View.LINE) if row.line),
        key=lambda row: row.self_ns,
    )
    share = numbers.percent(slowest.self_ns / sum(call.wall_ns for call in profile.calls))
    assert slowest.line is not None
    anchor = re.sub(r"\W", "-", slowest.line.file).replace("_", "-") + f"-{slowest.line.number}"
    row = page[page.index(f'id="{anchor}"') :]
    assert re.search(r'<span class="in-all">([^<]*)</span>', row)[1] == share  # type: ignore[index]


def test_page_needs_nothing_else(page: str) -> None:
    assert not re.search(r"(src|href)=\"(?!#|data:)", page)
    assert "url(" not in page and "@import" not in page and "fetch(" not in page
    assert "default-src 'none'" in page


def test_plan_is_executorchs(pte: Path) -> None:
    """The same values, places and instructions as ExecuTorch reads from the file."""
    ours = read_program(pte)
    stock = deserialize_pte_binary(pte.read_bytes()).program
    (plan,) = [plan for plan in stock.execution_plan if plan.name == "forward"]
    tensors = {
        number: value.val
        for number, value in enumerate(plan.values)
        if isinstance(value.val, Tensor) and value.val.allocation_info is not None
    }
    assert {item.value for item in ours.planned} == set(tensors)
    for item in ours.planned:
        tensor = tensors[item.value]
        place = tensor.allocation_info
        assert place is not None and item.sizes == tuple(tensor.sizes)
        assert item.offset == place.memory_offset_low and item.arena == place.memory_id
        assert item.offset + item.size <= ours.arenas[item.arena]
    assert ours.inputs == tuple(plan.inputs) and ours.outputs == tuple(plan.outputs)
    steps = [instruction.instr_args for instruction in plan.chains[0].instructions]
    for instruction, step in zip(ours.instructions, steps, strict=True):
        if isinstance(step, KernelCall):
            assert instruction.operator.startswith(plan.operators[step.op_index].name)
        else:
            assert isinstance(step, DelegateCall)
            assert instruction.delegate == step.delegate_index
        assert instruction.values == tuple(step.args)
    assert [item.backend for item in ours.delegates] == [item.id for item in plan.delegates]


@pytest.mark.check
def test_memory_is_counted_byte_by_byte(embedded_pte: Path, profile: Profile) -> None:
    program = read_program(embedded_pte)
    timeline = plan_timeline(program, profile)
    assert timeline is not None
    (size,) = program.arenas.values()
    granule = 64  # bytes: planned places are multiples of 16 apart, and most of thousands
    for index, step in enumerate(timeline.steps):
        used = numpy.zeros(size // 16 + 1, bool)
        for item in timeline.tenants:
            if item.first <= index <= item.last:
                start = item.planned.offset // 16
                used[start : start + -(-item.planned.size // 16)] = True
        assert abs(int(used.sum()) * 16 - step.live) < granule * 16
    assert timeline.steps[timeline.peak].live == max(step.live for step in timeline.steps)
    caches = [item for item in timeline.tenants if item.role == "buffer"]
    assert len(caches) == 8  # keys and values of four layers
    assert {item.planned.size for item in caches} == {2048 * 2 * 64 * 4}
    for item in timeline.tenants:  # the planner gave no byte to two that are needed at one time
        for other in caches:
            if item is not other:
                end = item.planned.offset + item.planned.size
                assert (
                    end <= other.planned.offset
                    or item.planned.offset >= other.planned.offset + other.planned.size
                )


def test_delegates_memory_is_its_op_lists(embedded_cpu_pte: Path, cpp_build: Path) -> None:
    program = read_program(embedded_cpu_pte)
    (delegate,) = program.delegates
    listed = delegate.op_list
    assert listed is not None
    stock = deserialize_pte_binary(embedded_cpu_pte.read_bytes())
    assert stock.named_data is not None
    sizes = {
        key: len(stock.named_data.buffers[entry.buffer_index])
        for key, entry in stock.named_data.pte_data.items()
    }
    assert listed.weight_bytes == sum(
        size
        for key, size in sizes.items()
        if key.startswith("cpu/") and not key.startswith("cpu/floats")
    )
    assert listed.cache_bytes == 4 * 2 * 2048 * 2 * (64 + 4)  # int8, with a scale a head
    kinds = [operator.kind for operator in listed.operators]
    assert kinds == ["embedding", *["linear", "attention", "linear", "linear", "linear"] * 4] + [
        "linear"
    ]


def test_workspace_names_the_line_of_its_peak(embedded_cpu_pte: Path, recorded: Recorded) -> None:
    profile = load_profile(*recorded("embedded_cpu_pte"))
    program = read_program(embedded_cpu_pte)
    (space,) = workspaces(program, profile)
    assert all(step.line is not None for step in space.steps)
    assert space.steps[space.peak].live == max(step.live for step in space.steps)
    # Residual stream, gate times up: 256 and 768 floats; or those of queries, keys and values.
    assert space.steps[space.peak].live == 4 * (256 + 768)
    gates = [step for step in space.steps if step.name.endswith("gate_up_proj")]
    assert len(gates) == 4 and {step.live for step in gates} == {4 * (256 + 768)}


def test_rows_live_from_their_writing_to_their_last_reading() -> None:
    def operator(writes: int, *reads: int) -> Operator:
        return Operator("op", "linear", (0,), reads, writes, None, 0)

    listed = OpList(
        slots=(4, 8, 16),
        one_row=frozenset(),
        given=(0,),
        weights=(),
        operators=(operator(1, 0), operator(2, 1), operator(1, 0), operator(2, 1, 2)),
        cache_type="float16",
    )
    assert listed.live() == [{0, 1}, {0, 1, 2}, {0, 1, 2}, {1, 2}]


def test_slow_line_comes_first(tmp_path: Path) -> None:
    etdump, etrecord = record_slow_line(tmp_path)
    program = read_program(tmp_path / "module.pte")
    found = tables(make_page(load_profile(etdump, etrecord), program))
    for (caption, _), rows in found.items():
        if caption == "Lines by their own time":
            assert SLOW in rows[0][0]


def test_memory_says_which_line_set_the_peak(tmp_path: Path) -> None:
    etdump, etrecord = record_slow_line(tmp_path)
    profile = load_profile(etdump, etrecord)
    timeline = plan_timeline(read_program(tmp_path / "module.pte"), profile)
    assert timeline is not None
    line = timeline.steps[timeline.peak].line
    assert line is not None and SLOW in line.text
    assert timeline.at_peak[0].planned.size == 64 * 64 * 512 * 4


def test_text_from_elsewhere_stays_text(profile: Profile) -> None:
    """Names of files, operators and modules, and source: none of it becomes markup or script."""
    wicked = "</script><script>alert(1)</script><b onclick=x>&'\""
    line = Line(wicked, 1, wicked, wicked)
    call = profile.calls[0]
    event = replace(
        call.events[0],
        name=wicked,
        op_kind=wicked,
        module_path=wicked,
        lines=(line,),
        stack=(line,),
    )
    spoiled = replace(call, events=(event, *call.events[1:]))
    page = make_page(replace(profile, calls=(spoiled,), sources={wicked: wicked}))
    assert "<script>alert" not in page and "<b onclick" not in page
    assert page.count("</script>") == 2  # the data's, and that of the page's own script


@pytest.mark.soak
def test_pages_of_large_models_stay_small(recorded: Recorded) -> None:
    """80 layers and 300 calls: what is summed up does not grow with calls."""
    profile = load_profile(*recorded("embedded_cpu_pte"))
    call = profile.calls[-1]
    layers = [
        replace(event, layer=layer, module_path=event.module_path.replace(".0.", f".{layer}."))
        for layer in range(80)
        for event in call.events
        if event.layer == 0
    ]
    large = replace(call, events=tuple(layers))
    page = make_page(replace(profile, calls=(large,) * 300))
    assert len(page) < 600_000


def test_the_command_writes_it(pte: Path, etdump: Path, tmp_path: Path) -> None:
    out, limits = tmp_path / "report.html", tmp_path / "limits.json"
    entry = '{"threads": 1, "read_bytes_per_s": 35e9, "int8_operations_per_s": 469e9}'
    limits.write_text(f'{{"limits": [{entry}]}}')
    arguments = ["report", etdump, "--etrecord", etrecord_of(pte), "--pte", pte, "--out", out]
    result = CliRunner().invoke(main, [str(word) for word in (*arguments, "--limits", limits)])
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"wrote {out}: ")
    assert "the line is known of 100.0% of delegate time and of 100.0% of events" in result.output
    page = out.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "-bound, " in page


def test_without_the_model_it_says_what_is_missing(profile: Profile) -> None:
    page = make_page(profile)
    assert "The memory plan is in the model's file: pass --pte." in page
    assert "Without the machine's limits there is no roof: pass --limits." in page


def test_what_it_refuses(pte: Path, etdump: Path, tmp_path: Path) -> None:
    def refused(model: Path) -> str:
        with pytest.raises(BadRequest) as caught:
            read_program(model)
        return str(caught.value)

    data = pte.read_bytes()
    cut, damaged = tmp_path / "cut.pte", tmp_path / "damaged.pte"
    cut.write_bytes(data[: len(data) // 2])
    damaged.write_bytes(data[:200] + b"\xff" * 3000 + data[3200:])
    assert "bytes; copy it again" in refused(cut)
    assert "is damaged; copy or export it again" in refused(damaged)
    assert "is not an ExecuTorch program; name a .pte" in refused(etdump)
    assert "No such file" in refused(tmp_path / "absent.pte")
    out = tmp_path / "report.html"
    arguments = ["report", etdump, "--etrecord", etrecord_of(pte), "--pte", cut, "--out", out]
    result = CliRunner().invoke(main, [str(word) for word in arguments])
    assert result.exit_code == 2 and result.stderr.startswith(f"Error: {cut} is cut")
    assert not out.exists()
