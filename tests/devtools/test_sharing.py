"""An operator that fuses several lines or modules: each has its share of the time, and no more."""

import inspect as source_of
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.recorded_runs import Recorded

import exporter.models.attention
from devtools.commands.cli import main
from devtools.profile import Event, Phase, Profile, load_profile
from devtools.profile.attribution import Attributions
from devtools.profile.etrecord import Node, Record, read_etrecord
from devtools.profile.rows import View, make_rows, without_layer
from devtools.profile.sharing import Sharing
from devtools.profile.work import WorkCounter

MODELS = ["stories_cpu_pte", "embedded_cpu_pte"]


@pytest.fixture(scope="module", params=MODELS)
def pair(request: pytest.FixtureRequest, recorded: Recorded) -> tuple[Path, Path]:
    return recorded(request.param)


@pytest.fixture(scope="module")
def profile(pair: tuple[Path, Path]) -> Profile:
    return load_profile(*pair)


def inspect(pair: tuple[Path, Path], *arguments: str | Path) -> Result:
    words = ["inspect", str(pair[0]), "--etrecord", str(pair[1]), *map(str, arguments)]
    return CliRunner().invoke(main, words)


def leaf(event: Event) -> str:
    return event.module_path.rpartition(".")[2]


def test_shares_add_up_to_the_event(profile: Profile) -> None:
    events = [event for call in profile.calls for event in call.events]
    for event in events:
        portions = event.portions
        assert portions[0].start_ns == event.start_ns and portions[-1].end_ns == event.end_ns
        for before, after in zip(portions, portions[1:], strict=False):
            assert before.end_ns == after.start_ns
        for name in ("bytes_moved", "operations"):
            values = [getattr(portion, name) for portion in portions]
            whole = getattr(event, name)
            assert values == [None] * len(values) if whole is None else sum(values) == whole
        assert {line for portion in portions for line in portion.lines} <= set(event.lines)
    fused = {tuple(leaf(portion) for portion in event.portions) for event in events if event.shares}
    assert {("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj")} <= fused


def test_rows_decide_between_matrices_of_one_type(profile: Profile) -> None:
    """Half as many keys as queries: half the time; as much up as gate: the same."""
    for call in profile.calls:
        for event in call.events:
            if not event.shares or event.op_kind != "linear" or event.part == "prepare":
                continue
            times = {leaf(portion): portion.duration_ns for portion in event.portions}
            if "gate_proj" in times:
                assert abs(times["gate_proj"] - times["up_proj"]) <= 1
            else:
                assert abs(times["q_proj"] - 2 * times["k_proj"]) <= 3
                assert abs(times["v_proj"] - times["k_proj"]) <= 1


def test_every_linear_has_time(profile: Profile) -> None:
    for phase in (Phase.PREFILL, Phase.DECODE):
        rows = {row.key: row for row in make_rows(profile.calls_of(phase), View.EACH_MODULE)}
        for layer in {event.layer for event in profile.calls[0].events} - {None}:
            for name in ("self_attn.k_proj", "self_attn.v_proj", "mlp.up_proj", "mlp.gate_proj"):
                assert rows[f"model.layers.{layer}.{name}"].self_ns > 0


def _fused(record: Record) -> list[Node]:
    """The nodes of the first layer's queries, keys and values."""
    ends = ("layers.0.self_attn.q_proj", "layers.0.self_attn.k_proj", "layers.0.self_attn.v_proj")
    return [
        node
        for node in record.nodes
        if node.module_path.endswith(ends) and node.operator.startswith("thimble.linear")
    ]


def test_bytes_decide_for_one_token_and_operations_for_more(recorded: Recorded) -> None:
    """Keys in 8 bits beside queries and values in 4."""
    record = read_etrecord(recorded("stories_cpu_pte")[1])
    q, k, v = _fused(record)
    types = {k.name: {"bits": 8, "group_size": 0, "levels": 1}}
    types |= {node.name: {"bits": 4} for node in (q, v)}
    changed = replace(
        record,
        nodes=tuple(
            replace(node, constants={**node.constants, **types.get(node.name, {})})
            for node in record.nodes
        ),
    )
    attributions = Attributions(changed)
    sharing = Sharing(attributions, WorkCounter(changed))
    found = attributions.of(tuple(node.debug_handle or 0 for node in (q, k, v)))
    assert [node.name for node in found.nodes] == [q.name, k.name, v.name]
    one, many = sharing.of(found, 1), sharing.of(found, 9)
    assert many[0].time == 2 * many[1].time == 2 * many[2].time
    assert 1.6 < one[1].time / one[2].time < 2 and one[1].time == one[1].bytes_moved
    # Where the work of one is unknown, as of a length that nobody told, nothing is divided.
    assert sharing.of(found, None) == ()


def test_rows_say_what_they_share(pair: tuple[Path, Path], tmp_path: Path) -> None:
    outcome = inspect(pair, "--json", tmp_path / "out.json")
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stdout.count("shares with: one operator computes these together.") == 1
    source = source_of.getsource(exporter.models.attention).splitlines()
    line = 1 + next(i for i, text in enumerate(source) if "q = self.q_proj(" in text)
    shares = f"exporter/models/attention.py:{line} (shares with {line + 1}, {line + 2})"
    assert shares in outcome.stdout
    for phase in json.loads((tmp_path / "out.json").read_text())["phases"].values():
        for rows in phase["by"].values():
            assert sum(row["self_ns"] for row in rows) == phase["wall_ns"]
            for row in rows:
                assert bool(row["shared_with"]) == bool(row["shared_ns"] > 0)
                assert row["shared_ns"] <= row["self_ns"]
        modules = {row["key"]: row for row in phase["by"]["module"]}
        keys = modules["model.layers.*.self_attn.k_proj"]
        assert set(keys["shared_with"]) == {
            "model.layers.*.self_attn.q_proj",
            "model.layers.*.self_attn.v_proj",
        }
        assert keys["shared_ns"] == keys["self_ns"]
        assert not any(row["shared_with"] for row in phase["by"]["layer"])
    only_layers = inspect(pair, "--by", "layer")
    assert "shares with" not in only_layers.stdout


def test_modules_of_all_layers_are_one_row(pair: tuple[Path, Path], profile: Profile) -> None:
    calls = profile.calls_of(Phase.DECODE)
    layers = len({event.layer for event in calls[0].events} - {None})
    together = {row.key: row for row in make_rows(calls, View.MODULE)}
    down = together["model.layers.*.mlp.down_proj"]
    assert down.layers == layers and together["lm_head"].layers == 0
    each = [row for row in make_rows(calls, View.EACH_MODULE) if row.key.endswith("mlp.down_proj")]
    assert len(each) == layers and {row.layers for row in each} == {0}
    assert down.self_ns == sum(row.self_ns for row in each)
    assert down.count == sum(row.count for row in each)
    outcome = inspect(pair, "--by", "module")
    assert f"model.layers.*.mlp.down_proj ({layers} layers)" in outcome.stdout
    assert "model.layers.0" not in outcome.stdout
    apart = inspect(pair, "--by", "module", "--every-layer", "--top", "0")
    assert "model.layers.0.mlp.down_proj" in apart.stdout and "*" not in apart.stdout


def test_every_layer_without_modules_is_refused(pair: tuple[Path, Path]) -> None:
    outcome = inspect(pair, "--by", "op", "--every-layer")
    assert outcome.exit_code == 2
    assert "--every-layer has no effect on --by op; use --by module." in outcome.stderr


def test_the_layers_number_is_what_is_left_out() -> None:
    assert without_layer("model.layers.3", 3) == "model.layers.*"
    assert without_layer("model.layers.3.mlp.experts.3", 3) == "model.layers.*.mlp.experts.3"
    assert without_layer("lm_head", None) == "lm_head"
