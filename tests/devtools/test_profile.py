"""Recorded runs with their lines: coverage, times that add up, ExecuTorch's own frame, and files
that are not what they should be."""

import re
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pandas
import pytest
from executorch.devtools import Inspector
from executorch.devtools.etdump.serialize import deserialize_from_etdump_flatcc
from support.recorded_runs import TOKENS, Recorded
from support.tiers import checked

from devtools.errors import BadRequest
from devtools.profile import Phase, events_frame, inspector_frame, load_profile
from devtools.profile.etdump import read_etdump
from devtools.profile.etrecord import read_etrecord
from devtools.profile.rows import View, make_rows
from devtools.profile.stack import own_stack, parse_stack

MODELS = ["stories_cpu_pte", "embedded_cpu_pte", "embedded_pte", "stories_gptq_pte"]


@pytest.mark.parametrize("name", [*MODELS[:2], *checked(MODELS[2:])])
@pytest.mark.parametrize("phase", (Phase.PREFILL, Phase.DECODE))
def test_every_event_has_a_line(recorded: Recorded, name: str, phase: Phase) -> None:
    """Of the CPU delegate all that it records; of XNNPACK here also all, though 95% would do."""
    profile = load_profile(*recorded(name))
    calls = profile.calls_of(phase)
    assert len(calls) == (1 if phase is Phase.PREFILL else TOKENS - 1)
    for call in calls:
        inside = [event for event in call.events if event.backend is not None]
        assert inside and all(event.lines for event in inside)
        assert all(event.lines for event in call.events)
        assert call.seq_len == 1 if phase is Phase.DECODE else call.seq_len > 1
    assert profile.coverage.delegate_time == profile.coverage.event_count == 1
    assert profile.coverage.unresolved == ()


@pytest.mark.parametrize("name", [*MODELS[:2], *checked(MODELS[2:])])
def test_times_add_up_to_the_wall(recorded: Recorded, name: str) -> None:
    profile = load_profile(*recorded(name))
    raw = [
        run for run in read_etdump(recorded(name)[0]) if run.name.startswith(("prefill", "decode"))
    ]
    for call, run in zip(profile.calls, raw, strict=True):
        (wall,) = [item.end - item.start for item in run.records if item.name == "Method::execute"]
        parts = (
            call.attributed_ns,
            call.unattributed_ns,
            call.delegate_overhead_ns,
            call.runtime_overhead_ns,
        )
        assert sum(parts) == wall
        for view in View:
            assert sum(row.self_ns for row in make_rows([call], view)) == wall
    for phase in Phase:
        calls = profile.calls_of(phase)
        rows = make_rows(calls, View.LINE)
        assert sum(row.self_ns for row in rows) == sum(call.wall_ns for call in calls)


@pytest.mark.parametrize("name", ["embedded_cpu_pte", *checked(["embedded_pte"])])
def test_lines_say_what_the_source_says(recorded: Recorded, name: str) -> None:
    profile = load_profile(*recorded(name))
    root = Path(__file__).resolve().parents[2]
    assert "exporter/models/decoder.py" in profile.sources
    for call in profile.calls:
        for event in call.events:
            for line in (*event.lines, *event.stack):
                source = (root / line.file).read_text().splitlines()
                assert source[line.number - 1].strip() == line.text


@pytest.mark.parametrize("name", ["embedded_cpu_pte", *checked(["embedded_pte"])])
def test_what_a_decoder_layer_is_made_of(recorded: Recorded, name: str) -> None:
    profile = load_profile(*recorded(name))
    (prefill,) = profile.calls_of(Phase.PREFILL)
    decode = profile.calls_of(Phase.DECODE)[-1]
    for call in (prefill, decode):
        events = {event.module_path: event for event in call.events if event.op_kind == "linear"}
        head = events["lm_head"]
        assert head.layer is None and head.line is not None and "self.head" in head.line.text
        assert head.operations == 2 * 256 * 4096  # of the last token alone
        # Of the last layer the CPU delegate computes the last token alone, too.
        down = events["model.layers.2.mlp.down_proj"]
        assert down.layer == 2 and down.line is not None and "self.down_proj" in down.line.text
        assert down.operations == 2 * 256 * 768 * (call.seq_len or 0)
        assert down.bytes_moved is not None and down.bytes_moved > 256 * 768 / 2
        attention = [event for event in call.events if event.op_kind == "attention"]
        lines = {event.line.text for event in attention if event.line and event.part != "prepare"}
        assert lines == {"out = torch.ops.thimble.cached_attention("}


def test_views_hold_all_layers(recorded: Recorded) -> None:
    calls = load_profile(*recorded("stories_cpu_pte")).calls_of(Phase.DECODE)
    layers = {row.key for row in make_rows(calls, View.LAYER) if row.kind == "events"}
    assert layers == {*(f"layer {number}" for number in range(5)), "outside of layers"}
    modules = {row.key: row for row in make_rows(calls, View.EACH_MODULE)}
    inside = [row for key, row in modules.items() if key.startswith("model.layers.2")]
    assert modules["model.layers.2"].total_ns == sum(row.self_ns for row in inside)
    lines = {row.key: row for row in make_rows(calls, View.LINE)}
    (loop,) = [row for row in lines.values() if row.line and "layer(x, context" in row.line.text]
    assert loop.self_ns == 0
    layer_rows = [row for row in make_rows(calls, View.LAYER) if row.key.startswith("layer ")]
    assert loop.total_ns == sum(row.self_ns for row in layer_rows)


@pytest.mark.parametrize("name", ["stories_cpu_pte", *checked(["stories_gptq_pte"])])
def test_frame_is_the_inspectors(recorded: Recorded, name: str) -> None:
    """Column by column and value by value."""
    etdump, etrecord = recorded(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tensors that were not recorded
        inspector = Inspector(etdump_path=str(etdump), etrecord=str(etrecord))
    for units in (True, False):
        expected = inspector.to_dataframe(include_units=units)
        pandas.testing.assert_frame_equal(inspector_frame(etdump, etrecord, units), expected)


@pytest.mark.check
def test_records_are_what_executorch_reads(recorded: Recorded) -> None:
    path, _ = recorded("stories_gptq_pte")
    expected = deserialize_from_etdump_flatcc(path.read_bytes())
    for ours, theirs in zip(read_etdump(path), expected.run_data, strict=True):
        assert ours.name == theirs.name
        events = [event.profile_event for event in theirs.events or () if event.profile_event]
        for item, event in zip(ours.records, events, strict=True):
            assert item.name == (event.name or "")
            assert (item.chain, item.instruction_id) == (event.chain_index, event.instruction_id)
            assert (item.start, item.end) == (event.start_time, event.end_time)
            assert item.delegate_debug_id in (event.delegate_debug_id_str or None, -1)


def test_frame_of_events(recorded: Recorded) -> None:
    profile = load_profile(*recorded("stories_cpu_pte"))
    frame = events_frame(profile)
    assert (~frame.is_share).sum() == sum(
        not event.shares for call in profile.calls for event in call.events
    )
    assert {"k_proj", "v_proj"} <= {
        path.rpartition(".")[2] for path in frame[frame.is_share].module
    }
    assert frame.self_ns.sum() == profile.coverage.events_ns
    assert set(frame[frame.phase == "decode"].seq_len) == {1}


def test_refuses_a_profile_of_another_model(recorded: Recorded) -> None:
    for name in MODELS[:2]:
        for other in MODELS[:2]:
            if other == name:
                continue
            with pytest.raises(BadRequest, match="was recorded from another program than"):
                load_profile(recorded(name)[0], recorded(other)[1])


@pytest.mark.parametrize("share", [0.02, 0.5, 0.999])
def test_refuses_cut_files(recorded: Recorded, tmp_path: Path, share: float) -> None:
    etdump, etrecord = recorded("stories_cpu_pte")
    for source in (etdump, etrecord):
        cut = tmp_path / source.name
        data = source.read_bytes()
        cut.write_bytes(data[: int(len(data) * share)])
        pair = (cut, etrecord) if source == etdump else (etdump, cut)
        with pytest.raises(BadRequest, match=rf"{cut.name} is cut"):
            load_profile(*pair)


@pytest.mark.check
def test_damaged_profiles_end_with_a_sentence(recorded: Recorded, tmp_path: Path) -> None:
    """Every 97th byte turned over: read as something else, or refused; never an exception."""
    etdump, _ = recorded("stories_cpu_pte")
    data = etdump.read_bytes()
    path = tmp_path / "damaged.etdp"
    refused = 0
    for at in range(4, len(data), 97):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        try:
            read_etdump(path)
        except BadRequest as error:
            assert "damaged.etdp" in str(error) and str(error).endswith(".")
            refused += 1
    assert refused > 0


@pytest.mark.check
def test_an_id_damaged_in_a_later_call(recorded: Recorded, tmp_path: Path) -> None:
    """Of all bytes of the last call's instructions: what still reads is of this program."""
    etdump, etrecord = recorded("stories_cpu_pte")
    data = etdump.read_bytes()
    path = tmp_path / "damaged.etdp"
    sentences = set()
    for at in range(len(data) // 2, len(data), 61):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        try:
            load_profile(path, etrecord)
        except BadRequest as error:
            sentences.add(re.sub(r"\d+", "N", str(error).removeprefix(str(path))))
    later = f" is damaged in its call N: instruction N is not in it, by {etrecord}; copy it again, "
    assert re.sub(r"\d+", "N", later) + "or record it again." in sentences


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("debug_handle_map", "[]"),
        ("debug_handle_map", '{"forward": null}'),
        ("debug_handle_map", '{"forward": {"x": 1}}'),
        ("debug_handle_map", '{"forward": {"1": [[1]]}}'),
        ("delegate_map", "[]"),
        ("delegate_map", '{"forward": {"0": {"name": [], "delegate_map": {}}}}'),
        ("GRAPH", "null"),
        ("GRAPH", "[]"),
        ("GRAPH", '{"schema_version": {"major": 8}}'),
        ("GRAPH", '{"schema_version": {"major": []}}'),
        ("GRAPH", 10000 * "["),
    ],
)
def test_records_of_odd_json_are_damaged(
    recorded: Recorded, tmp_path: Path, name: str, text: str
) -> None:
    path = tmp_path / "odd.etrecord"
    with ZipFile(recorded("stories_cpu_pte")[1]) as whole, ZipFile(path, "w") as odd:
        for item in whole.namelist():
            changed = name == item or name == "GRAPH" and item.startswith("edge_dialect_exported")
            odd.writestr(item, text if changed else whole.read(item))
    with pytest.raises(BadRequest) as error:
        read_etrecord(path)
    assert str(error.value) == f"{path} is damaged; copy it again, or export again."


def test_refuses_other_files(recorded: Recorded, tmp_path: Path) -> None:
    etdump, etrecord = recorded("stories_cpu_pte")
    with pytest.raises(BadRequest, match="is not an ETDump; name the file"):
        load_profile(etrecord, etrecord)
    with pytest.raises(BadRequest, match="is not an ETRecord; name the file"):
        load_profile(etdump, etdump)
    with pytest.raises(BadRequest, match="cannot be read .No such file"):
        load_profile(tmp_path / "absent.etdp", etrecord)
    with pytest.raises(BadRequest, match="cannot be read .No such file"):
        load_profile(etdump, tmp_path / "absent.etrecord")
    empty = tmp_path / "empty.etdp"
    empty.write_bytes(b"")
    with pytest.raises(BadRequest, match="is not an ETDump"):
        load_profile(empty, etrecord)


def test_reads_etrecords_that_say_where_they_were_written(
    recorded: Recorded, tmp_path: Path
) -> None:
    """A file moved elsewhere, without the sources: lines and code are in the record itself."""
    moved = tmp_path / "elsewhere.etrecord"
    shutil.copy(recorded("stories_cpu_pte")[1], moved)
    record = read_etrecord(moved)
    places = {line.location for node in record.nodes for line in node.stack}
    assert all(place.startswith(("exporter/", "quant/")) for place in places)


def test_stack_traces() -> None:
    trace = (
        'File "/home/a/shop/model.py", line 12, in forward\n    y = self.inner(x)\n'
        'File "/home/a/shop/inner.py", line 3, in forward\n    return F.linear(x, self.w)\n'
        'File "/usr/lib/python3.11/functools.py", line 9, in wrapper\n'
        'File "/v/lib/python3.11/site-packages/torch/nn/functional.py", line 5, in linear\n    z'
    )
    frames = parse_stack(trace)
    assert [line.number for line in frames] == [12, 3, 9, 5]
    assert frames[2].text == "" and frames[3].text == "z"
    assert own_stack(frames) == frames[:2]
    library = parse_stack(
        'File "/v/lib/python3.11/site-packages/transformers/llama.py", line 1, in f'
    )
    assert own_stack(library) == library
    assert own_stack(parse_stack('File "torch/fx/passes/runtime.py", line 24, in insert')) == ()


def test_one_interrupted_call_does_not_change_the_order(recorded: Recorded) -> None:
    """The system takes the processor away for a second amid a small operator of one call."""
    calls = load_profile(*recorded("stories_cpu_pte")).calls_of(Phase.DECODE)
    before = [row.key for row in make_rows(calls, View.LINE)]
    late = 10**9
    events = list(calls[0].events)
    events[0] = replace(events[0], end_ns=events[0].end_ns + late)
    (delegate,) = calls[0].delegate_calls
    interrupted = replace(
        calls[0],
        end_ns=calls[0].end_ns + late,
        events=tuple(events),
        delegate_calls=(replace(delegate, end_ns=delegate.end_ns + late),),
    )
    rows = make_rows([interrupted, *calls[1:]], View.LINE)
    assert rows[0].key == before[0]
    assert sum(row.self_ns for row in rows) == late + sum(call.wall_ns for call in calls)
