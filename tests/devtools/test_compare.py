"""`devtools compare`: a healthy program is called healthy, a broken one by its broken line."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from support.damaged_weights import damage_weight
from support.families.gpt_oss import GPT_OSS
from support.family_models import Case, reference_model
from support.first_layers import export_recorded, first_layers
from support.model_lines import code_at, model_line
from torch import nn

from devtools.commands.cli import main
from devtools.commands.compare import compare
from devtools.commands.compare_table import show
from devtools.commands.recorded_weights import quantized_model, read_weights
from devtools.commands.requests import CompareRequest
from devtools.compare.figures import distance, logit_distance
from devtools.compare.outcome import Outcome
from devtools.compare.recording import Place, Recorder, operator_name
from devtools.compare.rows import QUANTIZED_TOLERANCE
from devtools.errors import BadRequest
from exporter.catalogue.names import EMBEDDED
from exporter.checkpoint import open_checkpoint
from quant.scheme import Scheme

LAYERS = 2
ATTENTION_RESIDUAL = model_line("x = x + self._run(self._mixer")
GATE_AND_UP = model_line("return self.down_proj(self.activation(self.gate_proj")


@pytest.fixture(scope="module")
def two_layers(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first layers of stories260K."""
    return first_layers(shared_data, tmp_path_factory.mktemp("two_layers"), LAYERS)


@pytest.fixture(scope="module")
def with_noise(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with one weight as wrong as it is large."""
    name = "model.layers.1.mlp.up_proj.weight"
    return first_layers(shared_data, tmp_path_factory.mktemp("with_noise"), LAYERS, name)


@pytest.fixture(scope="module")
def cpu_pte(cpp_build: Path, two_layers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_recorded(two_layers, tmp_path_factory.mktemp("cpu"), Scheme("rtn4"), "cpu")


@pytest.fixture(scope="module")
def xnnpack_pte(two_layers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("xnnpack")
    return export_recorded(two_layers, directory, Scheme("rtn4"), "xnnpack")


def ask(model: Path, checkpoint: Path, **changes: Any) -> CompareRequest:
    request = CompareRequest(model, str(checkpoint), None, None, 64, None)
    return dataclasses.replace(request, **changes)


@pytest.fixture(scope="module")
def healthy(cpu_pte: Path, two_layers: Path) -> Outcome:
    return compare(ask(cpu_pte, two_layers))


@pytest.mark.check
def test_a_healthy_program_departs_nowhere(healthy: Outcome) -> None:
    assert healthy.wrong is None and healthy.odd == []
    assert healthy.comparison.unmatched == []
    assert healthy.facts["prefill_tokens"] == 32 and healthy.facts["decode_tokens"] == 32
    for row in healthy.comparison.rows:
        assert set(row.program) == {"prefill", "decode"}
        assert row.program_error < QUANTIZED_TOLERANCE / 2
        assert row.sink.backend == "ThimbleCpuBackend" and not row.sink.at_boundary
    logits = healthy.logits["program_beside_quantized"]
    assert logits.positions == 33 and logits.kl < 1e-3
    assert healthy.logits["quantized_beside_float"].kl > 10 * logits.kl


def test_every_operator_of_the_delegate_is_a_line_of_the_model(healthy: Outcome) -> None:
    names = [
        (row.layer, row.sink.place.module_path.split(f"layers.{row.layer}")[-1].strip("."))
        for row in healthy.comparison.rows
    ]
    layer = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn", "", "mlp", ""]
    expected: list[tuple[int | None, str]] = [(None, "model.embed_tokens")]
    expected += [(index, name) for index in range(LAYERS) for name in layer]
    assert names == [*expected, (None, "lm_head")]
    lines = [row.sink.lines[0].location for row in healthy.comparison.rows]
    assert lines[5] == ATTENTION_RESIDUAL and lines[6] == GATE_AND_UP


def test_weights_are_those_that_the_line_uses(healthy: Outcome) -> None:
    found = {row.weights.module_path for row in healthy.comparison.rows if row.weights}
    for index in range(LAYERS):
        linears = {f"model.layers.{index}.self_attn.{name}_proj" for name in "qkvo"}
        assert linears <= found and f"model.layers.{index}.mlp.down_proj" in found
        assert {f"model.layers.{index}.mlp.{name}_proj" for name in ("gate", "up")} & found
    # 4 bits in groups of 32 lose about a tenth, 8 bits a tenth of that.
    for row in healthy.comparison.rows:
        if row.weights is not None:
            assert 1e-3 < row.weights.distance.relative < 0.3


def test_a_damaged_weight_in_the_file_names_line_and_layer(
    cpu_pte: Path, two_layers: Path, tmp_path: Path
) -> None:
    damaged = damage_weight(cpu_pte, "model.layers.1.self_attn.o_proj", tmp_path / "damaged.pte")
    outcome = compare(ask(damaged, two_layers, etrecord=cpu_pte.with_suffix(".etrecord")))
    assert outcome.wrong is not None and outcome.wrong.layer == 1
    assert outcome.wrong.sink.lines[0].location == ATTENTION_RESIDUAL
    assert outcome.odd == []  # the record has the weights as they were quantized
    before = [row for row in outcome.comparison.rows if row.layer == 0]
    assert all(row.program_error < QUANTIZED_TOLERANCE / 2 for row in before)


@pytest.fixture(scope="module")
def broken_export(
    cpp_build: Path, with_noise: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    return export_recorded(with_noise, tmp_path_factory.mktemp("broken"), Scheme("rtn4"), "cpu")


@pytest.mark.check
def test_a_weight_that_is_not_the_checkpoints_names_line_and_layer(
    broken_export: Path, two_layers: Path
) -> None:
    outcome = compare(ask(broken_export, two_layers))
    assert outcome.wrong is None  # the program computes what it was given to compute
    (row,) = outcome.odd
    assert row.weights is not None and row.layer == 1
    assert row.weights.module_path == "model.layers.1.mlp.up_proj"
    assert row.weights.line.location == GATE_AND_UP
    assert outcome.logits["program_beside_float"].kl > 0.1


def test_the_command_prints_it_as_text_and_as_json(
    broken_export: Path, two_layers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    options = ["--checkpoint", str(two_layers), "--tokens", "24", "--json", str(report)]
    main(["compare", str(broken_export), *options], standalone_mode=False)
    said = capsys.readouterr()
    assert said.err == ""
    code = code_at(GATE_AND_UP)
    assert (
        f"weights: those of {GATE_AND_UP}, layer 1, model.layers.1.mlp.up_proj ({code}) are not a "
        "rounding of the checkpoint's: relative error "
    ) in said.out
    assert "program: no line differs from the quantized model" in said.out
    written = json.loads(report.read_text())
    assert written["first_divergence"] is None
    assert written["odd_weights"][0]["module"] == "model.layers.1.mlp.up_proj"
    assert {"lines", "logits", "tolerance", "not_compared"} <= written.keys()


@pytest.mark.check
def test_xnnpack_shows_what_leaves_its_calls(two_layers: Path, xnnpack_pte: Path) -> None:
    outcome = compare(ask(xnnpack_pte, two_layers))
    assert outcome.wrong is None and outcome.odd == []
    places = {row.sink.place: row for row in outcome.comparison.rows}
    by_module = {(place.module_path, place.operator): row for place, row in places.items()}
    for index in range(LAYERS):
        layer = f"model.layers.{index}"
        for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.up_proj"):
            assert by_module[f"{layer}.{name}", "linear"].sink.at_boundary
        assert not by_module[f"{layer}.self_attn", "custom_sdpa"].sink.at_boundary
        assert (layer, "add") in by_module


@pytest.mark.soak
def test_experts_are_those_that_the_program_chooses(
    cpp_build: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rounding decides between almost equal scores: the tokens that go elsewhere are named."""
    shape = dict(vocab_size=4096, num_local_experts=12, num_hidden_layers=4)
    reference_model(Case("gpt_oss", "compared", {**GPT_OSS, **shape})).save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").symlink_to(EMBEDDED / "tokenizer.json")
    outcome = compare(ask(export_recorded(tmp_path, tmp_path, Scheme("rtn4"), "cpu"), tmp_path))
    assert outcome.wrong is None and outcome.odd == []
    errors = {
        row.sink.place.module_path: row.program_error
        for row in outcome.comparison.rows
        if row.sink.place.operator == "experts"
    }
    mixtures = [f"model.layers.{index}.mlp" for index in range(4)]
    assert list(errors) == mixtures
    assert all(error < QUANTIZED_TOLERANCE / 2 for error in errors.values())
    routing = outcome.comparison.routing
    assert [layer.module_path for layer in routing] == mixtures
    assert any(layer.flips for layer in routing)
    for layer in routing:
        assert all(0 <= flip.margin <= 2 * flip.moved for flip in layer.flips)
    named, apart = (outcome.logits[f"program_beside_{name}"] for name in ("routed", "quantized"))
    assert named.kl < apart.kl / 2
    show(outcome)
    said = capsys.readouterr().out
    assert "choices of experts differ from the quantized model's" in said
    assert "with the program's experts: KL" in said
    assert outcome.to_dict()["routing"][0]["module_path"] == mixtures[0]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"etrecord": Path("absent.etrecord")}, "There is no absent.etrecord; export with --etr"),
        (
            {"text": Path("absent.txt")},
            r"absent.txt cannot be read as text \(No such file or directory\); name ",
        ),
    ],
)
def test_bad_requests(
    cpu_pte: Path, two_layers: Path, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(BadRequest, match=sentence):
        compare(ask(cpu_pte, two_layers, **changes))


def test_a_checkpoint_of_another_shape(cpu_pte: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compare", str(cpu_pte), "--checkpoint", "llama3"], standalone_mode=False)
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"Error: {cpu_pte} has hidden_size 64 but embedded has 256; give the checkpoint that was "
        "exported.\n"
    )


def test_a_record_of_other_weights(cpu_pte: Path, two_layers: Path, broken_export: Path) -> None:
    """Of the same shapes, options and delegate."""
    other = broken_export.with_suffix(".etrecord")
    with pytest.raises(BadRequest) as caught:
        compare(ask(cpu_pte, two_layers, etrecord=other))
    assert str(caught.value) == (
        f"{other} is of another export than {cpu_pte}, such as one of other weights; give the "
        "record that was written together with this file."
    )


@pytest.mark.check
def test_a_record_of_another_delegates_program(
    cpu_pte: Path, xnnpack_pte: Path, two_layers: Path
) -> None:
    other = xnnpack_pte.with_suffix(".etrecord")
    with pytest.raises(BadRequest) as caught:
        compare(ask(cpu_pte, two_layers, etrecord=other))
    assert str(caught.value) == (
        f"{other} belongs to another program than {cpu_pte}; give the record that was written "
        "together with this file."
    )


def test_a_delegate_that_runs_elsewhere(
    cpu_pte: Path, two_layers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("delegates.cpu.load", lambda path: None)
    with pytest.raises(BadRequest, match="runs on cpu, which this machine cannot run; compare it"):
        compare(ask(cpu_pte, two_layers))


@pytest.mark.check
def test_a_file_for_apple_is_not_blamed_on_the_checkpoint(two_layers: Path, tmp_path: Path) -> None:
    pte = export_recorded(two_layers, tmp_path, Scheme("rtn4"), "mlx")
    with pytest.raises(BadRequest, match="runs on mlx, which this machine cannot run; compare it"):
        compare(ask(pte, two_layers))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("model.layers.0.mlp.up_proj.weight", (8, 64)),
        ("model.layers.7.mlp.up_proj.weight", (172, 64)),
        ("model.norm.weight", (32,)),
    ],
)
def test_a_record_of_another_model(
    cpu_pte: Path, two_layers: Path, name: str, shape: tuple[int, ...]
) -> None:
    record = cpu_pte.with_suffix(".etrecord")
    weights = {**read_weights(record), name: torch.zeros(shape)}
    with pytest.raises(BadRequest, match=f"whose {name} is .* does not fit two_layers"):
        quantized_model(open_checkpoint(two_layers), weights, record, Scheme("rtn4"))


def test_a_record_that_lacks_weights(cpu_pte: Path, two_layers: Path) -> None:
    record = cpu_pte.with_suffix(".etrecord")
    weights = read_weights(record)
    del weights["model.norm.weight"]
    with pytest.raises(BadRequest, match="has no model.norm.weight, which two_layers"):
        quantized_model(open_checkpoint(two_layers), weights, record, Scheme("rtn4"))


def test_a_recorder_keeps_each_operator_of_each_line() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x * 2 + x * 3
            return self.inner(x)

    module, x = Twice(), torch.ones(1, 2)
    recorder = Recorder()
    with torch.no_grad(), recorder.watching(module, "top"):
        result = module(x)
    found = {(p.module_path, p.operator, p.occurrence): v for p, v in recorder.values.items()}
    assert found.keys() == {
        ("top", "mul", 0),
        ("top", "mul", 1),
        ("top", "add", 0),
        ("top.inner", "linear", 0),
    }
    assert torch.equal(found["top", "mul", 1], x * 3)
    assert recorder.outputs["top"] is result and torch.equal(recorder.inputs["top.inner"], x * 5)
    line = next(place for place in recorder.values if place.operator == "add")
    unknown = Place("top", line.file, line.line, "silu", 0)
    assert recorder.find(unknown, lambda value: True) is recorder.values[line]
    assert recorder.find(Place("top", "other.py", 1, "add", 0), lambda value: True) is None


def test_a_piece_is_no_other_value_of_its_line() -> None:
    class Cut(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([x, -x], 1)[:, :2] + x

    recorder, module = Recorder(), Cut()
    with recorder.watching(module, "cut"):
        module(torch.ones(1, 2))
    (line,) = {(p.file, p.line) for p in recorder.values}
    for name, count in (("slice", 0), ("slice", 1), ("select", 0)):
        found = recorder.find(Place("cut", *line, name, count), lambda value: True)
        assert found is not None and torch.equal(found, torch.ones(1, 2))


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("aten.view_copy.default", "view"),
        ("__getitem__", "slice"),
        ("flatten", "view"),
        ("__add__", "add"),
        ("rmul", "mul"),
        ("aten.mul.Tensor", "mul"),
        ("rsqrt", "rsqrt"),
        ("llama.custom_sdpa.default", "custom_sdpa"),
        ("quantized_decomposed.embedding_byte.default", "embedding_byte"),
    ],
)
def test_operators_have_one_name(name: str, plain: str) -> None:
    assert operator_name(name) == plain


def test_distances_against_numbers_by_hand() -> None:
    apart = distance(torch.tensor([3.0, 4.0]), torch.tensor([3.0, 4.5]))
    assert apart.max_error == 0.5 and apart.relative == pytest.approx(0.1)
    assert apart.snr_db == pytest.approx(20.0)
    assert distance(torch.ones(2), torch.ones(2)).snr_db == math.inf
    broken = distance(torch.ones(2), torch.tensor([1.0, math.nan]))
    assert broken.relative == math.inf and broken.to_dict()["max_error"] is None
    same = logit_distance(torch.tensor([[0.0, 1.0]]), torch.tensor([[5.0, 6.0]]))
    assert same.kl == pytest.approx(0) and same.top1 == 1
    # KL of (1/2, 1/2) beside (1/4, 3/4): log 2 - log(3) / 2.
    other = torch.tensor([[0.25, 0.75]]).log()
    assert logit_distance(torch.zeros(1, 2), other).kl == pytest.approx(
        math.log(2) - math.log(3) / 2, rel=1e-6
    )
