"""Quantization knows of a model what its blocks tell: no names, no place of norms, no context."""

import ast
import copy
from pathlib import Path

import pytest
import torch
from support.layer_streams import assert_streams_go_through_the_layer
from support.small_models import ModelWeights
from support.unusual_models import Shape, UnusualModel, unusual_model
from torch import Tensor
from torch.nn import functional as F

from quant.baselines.awq import awq_layer
from quant.budget.sensitivity import measure_costs
from quant.cache.entry import encode_layer
from quant.errors import QuantError
from quant.layers.block_solver import Streams
from quant.layers.blocks import parts_of_layer
from quant.layers.embedding_and_head import head_logits
from quant.layers.stream import Stream
from quant.machine.device import context_on
from quant.machine.memory import estimate_peak
from quant.measure.quality import Quality, compare_logits
from quant.method import DRIFTS, Method
from quant.quantize import quantize
from quant.report import QuantReport
from quant.rotation.fold import rotate, rotated_by
from quant.rotation.learned import _Network
from quant.rounding.nearest import round_groups
from quant.scheme import EMBEDDING_PART, HEAD_PART, SCHEMES, Scheme
from quant.weight_type import INT8, int4

ROOT = Path(__file__).resolve().parents[2]
AROUND, IN_FRONT, BEHIND = Shape(), Shape(after=False), Shape(before=False)
SHAPES = pytest.mark.parametrize(
    "shape",
    [
        pytest.param(AROUND, id="around"),
        pytest.param(IN_FRONT, id="in front", marks=pytest.mark.check),
        pytest.param(BEHIND, id="behind", marks=pytest.mark.check),
    ],
)
ENDS = EMBEDDING_PART, HEAD_PART
PARTS = ["mixer.all", "mixer.out", "thinker.opens", "thinker.holds", "thinker.closes"]


def tokens(windows: int, seq_len: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, Shape().vocab_size, (windows, seq_len), generator=generator)


def empty(shape: Shape) -> UnusualModel:
    with torch.device("meta"):
        return UnusualModel(shape).eval()


def quantized(model: UnusualModel, scheme: Scheme) -> tuple[UnusualModel, QuantReport]:
    made = empty(model.config)
    report = quantize(made, scheme, ModelWeights(model), tokens(12, 16), tokens(8, 16, seed=9))
    return made, report


def compared(reference: UnusualModel, other: UnusualModel, text: Tensor) -> Quality:
    """Both models run whole, beside each other."""
    logits = (model.logits(text)[:, :-1] for model in (reference, other))
    return compare_logits(*logits, text[:, 1:])


@pytest.mark.parametrize(
    ("shape", "tied"),
    [
        pytest.param(AROUND, True, id="around-tied"),
        pytest.param(AROUND, False, id="around-untied", marks=pytest.mark.check),
        pytest.param(IN_FRONT, True, id="in front-tied", marks=pytest.mark.check),
        pytest.param(IN_FRONT, False, id="in front-untied", marks=pytest.mark.soak),
        pytest.param(BEHIND, True, id="behind-tied"),
        pytest.param(BEHIND, False, id="behind-untied", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_measures_the_model_that_it_makes(name: str, tied: bool, shape: Shape) -> None:
    """So the streams scale the embedding, pass every norm, give each layer its own table and cap
    the logits."""
    reference = unusual_model(Shape(shape.before, shape.after, tied=tied))
    model, report = quantized(reference, Scheme(name))
    assert report.quality is not None
    wanted = compared(reference, model, tokens(8, 16, seed=9)).to_dict()
    measured = report.quality.to_dict()
    # Sums of another order round some of the inputs to the next of 255 steps: in 120 tokens, each
    # moves a figure by a thousandth or so.
    assert measured == pytest.approx(wanted, rel=1e-3 if name == "none" else 1e-2, abs=1e-6)
    assert len(report.layer_errors) == 3
    if name == "none":
        assert max(report.layer_errors) == 0
    else:
        assert 0 < min(report.layer_errors) and max(report.layer_errors) < 0.5
        assert measured["kl"] < 0.1
    assert list(report.widths) == [*PARTS, *ENDS]


@SHAPES
@pytest.mark.parametrize("drift", DRIFTS)
def test_gptq_runs_its_streams_through_the_quantized_layer(drift: str, shape: Shape) -> None:
    assert_streams_go_through_the_layer(unusual_model(shape), tokens(16, 16), drift)


@SHAPES
def test_awq_moves_its_scales_into_what_comes_before(shape: Shape) -> None:
    model, text = unusual_model(shape), tokens(16, 16)
    before = model.model.layers[0]
    fronts = {f"{block.norm}.weight" for block in before.blocks() if block.norm is not None}
    for name in (*fronts, "mixer.says.weight", "mixer.says.bias"):
        before.get_parameter(name)[3] *= 20  # a channel worth scaling up
    context, after = model.context(16), copy.deepcopy(before)
    scheme = Scheme("awq4").with_types({f"model.layers.0.{part}": INT8 for part in PARTS})
    streams = Streams(Stream(text, model.embed, context), None)
    awq_layer(after, scheme, "model.layers.0", streams, lambda *_: None)
    x = model.embed(text)
    wanted, found = before(x, context) - x, after(x, context) - x
    assert (found - wanted).norm() < 0.03 * wanted.norm()  # what 8 bits cost, and activations
    changed = {
        name
        for name, parameter in after.named_parameters()
        if parameter.dim() == 1 and not torch.equal(parameter, before.get_parameter(name))
    }
    assert changed and changed <= fronts | {"mixer.says.bias"}


def layers_by_drift(shape: Shape, drift: str) -> list[dict[str, Tensor]]:
    """Of a model quantized with that correction, the integers, scales and the rest."""
    scheme = Scheme("gptq4", method=Method(drift=drift, descent=0))
    model = quantized(unusual_model(shape), scheme)[0]
    return [encode_layer(layer) for layer in model.model.layers]


@SHAPES
def test_a_linear_before_a_norm_aims_at_its_own_outputs(shape: Shape) -> None:
    """What the residual stream lacks it cannot add: the norm behind it is not linear."""
    residual, inputs = (layers_by_drift(shape, drift) for drift in ("residual", "inputs"))
    assert residual[0].keys() == inputs[0].keys()
    same = [
        all(torch.equal(ours[name], theirs[name]) for name in ours)
        for ours, theirs in zip(residual, inputs, strict=True)
    ]
    assert same == [shape.after] * 3


def test_memory_for_what_is_kept_behind_norms_is_counted() -> None:
    text = tokens(512, 64)
    plain = estimate_peak(empty(IN_FRONT), Scheme("gptq4"), text, spilled=True)
    normed = estimate_peak(empty(AROUND), Scheme("gptq4"), text, spilled=True)
    assert normed.disk - plain.disk >= 4 * text.numel() * Shape().inner_size


@pytest.mark.parametrize("rotation", ["hadamard", "learned"])
@pytest.mark.parametrize(
    ("shape", "what"), [(AROUND, "a norm after it"), (BEHIND, "a norm after it")]
)
def test_rotations_are_refused_where_norms_do_not_commute(
    rotation: str, shape: Shape, what: str
) -> None:
    scheme = Scheme("rtn4", method=Method(rounding="nearest", rotation=rotation))
    with pytest.raises(QuantError) as error:
        quantized(unusual_model(shape), scheme)
    assert str(error.value) == (
        f"rotation={rotation} needs blocks with a norm before them and none after, but "
        f"model.layers.0.mixer has {what}; take rotation=none."
    )


def test_rotations_are_refused_without_norms() -> None:
    scheme = Scheme("rtn4", method=Method(rounding="nearest", rotation="hadamard"))
    with pytest.raises(QuantError, match="but model.layers.0.mixer has no norm before it; take"):
        quantized(unusual_model(Shape(before=False, after=False)), scheme)


@pytest.mark.parametrize("tied", [True, False])
def test_a_scaled_embedding_and_a_cap_may_be_rotated(tied: bool) -> None:
    model = unusual_model(Shape(after=False, tied=tied))
    turned = empty(model.config)
    quantize(turned, Scheme("none"), rotate(turned, ModelWeights(model)))
    text, moved = tokens(4, 16), turned.model.layers[0].mixer
    assert not torch.allclose(moved.out.weight, model.model.layers[0].mixer.out.weight, atol=1e-3)
    torch.testing.assert_close(turned.logits(text), model.logits(text), rtol=1e-5, atol=1e-4)


def test_a_learned_rotation_sees_scale_and_cap() -> None:
    """It is learned on the model's own loss."""
    model = unusual_model(IN_FRONT)
    text = tokens(4, 16)
    turned = empty(IN_FRONT)
    eye, heads = torch.eye(64, dtype=torch.float64), torch.eye(16, dtype=torch.float64)
    network = _Network(turned, rotated_by(turned, ModelWeights(model), eye, {16: heads}), 32)
    logits = model.logits(text)[:, :-1].flatten(0, 1)
    wanted = F.cross_entropy(logits, text[:, 1:].flatten())
    loss = network.loss(text, torch.eye(64))
    assert loss.item() == pytest.approx(wanted.item(), rel=0.02)  # but for its own rounding


def test_a_head_in_slices_is_finished() -> None:
    model = unusual_model(AROUND)
    hidden = torch.randn(5, 64, generator=torch.Generator().manual_seed(0)) * 4
    wanted = model.finish_logits(model.lm_head(model.model.norm(hidden)))
    assert wanted.abs().max() > 0.9 * AROUND.logit_cap
    torch.testing.assert_close(head_logits(model, hidden), wanted)


@SHAPES
def test_costs_are_what_rounding_one_part_costs(shape: Shape) -> None:
    """Through norms behind blocks, an embedding's scale and the slope of a cap."""
    model, text = unusual_model(shape), tokens(64, 16)
    method, types = Scheme("rtn4").choice, (int4(32), INT8)
    costs = measure_costs(empty(shape), method, types, ModelWeights(model), text)
    linears = linears_by_part(model)
    assert costs.keys() == linears.keys()
    for name, (at4, at8) in costs.items():
        share = at4 / compared(model, with_rounded(model, linears[name]), text).kl
        # Errors of positions that attention mixes are not independent, as costs take them to be.
        assert 0.35 < share < 1.3, name
        assert name not in ENDS or 0.85 < share < 1.15, name
        assert at8 < 0.01 * at4


def linears_by_part(model: UnusualModel) -> dict[str, list[str]]:
    """The paths in the model of what each of its parts consists of."""
    parts = {
        f"model.layers.{index}.{part.name}": [f"model.layers.{index}.{x}" for x in part.linears]
        for index, layer in enumerate(model.model.layers)
        for part in parts_of_layer(layer)
    }
    return parts | {end: [end] for end in ENDS}


def with_rounded(model: UnusualModel, linears: list[str]) -> UnusualModel:
    """The model with some weights rounded to 4 bits, and nothing else."""
    made = copy.deepcopy(model)
    for path in linears:
        weight = made.get_parameter(f"{path}.weight")
        rounded = round_groups(weight, 4, 32, path, Scheme("rtn4").choice).dequantize()
        weight.copy_(rounded[:, : weight.shape[1]])
    return made


def test_a_context_is_moved_completely() -> None:
    brought = context_on(torch.device("meta"), unusual_model(AROUND), 8)
    assert brought["near"][0].is_meta and brought["far"][0].is_meta
    assert brought["near"][1] == 3 and brought["far"][0].shape == (8, 8)


def strings(tree: ast.AST) -> list[str]:
    """The text in a module that is not a docstring."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return [str(node.value) for node in constants if id(node) not in docstrings]


def test_no_module_of_quant_names_what_a_layer_holds() -> None:
    modules = list((ROOT / "quant").rglob("*.py"))
    found = {
        (path.name, text)
        for path in modules
        for text in strings(ast.parse(path.read_text(encoding="utf-8")))
        if any(name in text for name in ("_proj", "self_attn", "mlp", "layernorm"))
    }
    assert len(modules) > 40 and not found


def test_only_the_walk_takes_hidden_states_through_layers() -> None:
    """Beside it the model does, in what is captured."""
    found = {
        path.relative_to(ROOT).as_posix()
        for package in ("quant", "devtools", "exporter")
        for path in (ROOT / package).rglob("*.py")
        if calls_layers(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found and all(path.startswith("exporter/models/") for path in found)


def calls_layers(tree: ast.AST) -> bool:
    """Whether a loop over layers calls each of them."""
    for loop in ast.walk(tree):
        if isinstance(loop, ast.For) and "layers" in ast.unparse(loop.iter):
            targets = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
            calls = [node.func for node in ast.walk(loop) if isinstance(node, ast.Call)]
            if any(isinstance(call, ast.Name) and call.id in targets for call in calls):
                return True
    return False
