"""`--explain`: every size, guard, decomposition, undelegated and unfused operator has its line."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import torch
from click.testing import CliRunner
from support.adapters import save_adapter
from support.cpu_models import TINY
from support.model_lines import model_line
from support.small_models import quantized_model, random_model
from support.tiers import checked
from torch import Tensor, nn
from torch.export import Dim, export

from delegates import get_delegate
from delegates.op_list.unfused import why_unfused
from exporter.capture.program import capture
from exporter.capture.refusals import REFUSALS, refused
from exporter.capture.shapes import Condition, Shapes, explain_shapes, noting_conditions
from exporter.checkpoint import open_checkpoint
from exporter.command_line.quiet import silence_known_noise
from exporter.commands.cli import main
from exporter.errors import ExportError
from exporter.explain import quick_scheme
from exporter.models.context import CachedContext, Context
from exporter.models.decoder import CausalLM, DecoderLayer
from exporter.models.mlp import MLP
from quant.method import Method
from quant.scheme import METHODS, Scheme

HERE = Path(__file__)
CONTEXT = 48
Explained = Callable[[str], tuple[str, dict[str, Any]]]


def line_with(mark: str) -> str:
    """The place of the one line of this file that ends in the mark."""
    lines = HERE.read_text(encoding="utf-8").splitlines()
    (number,) = [n for n, text in enumerate(lines, 1) if text.endswith(f"# {mark}")]
    return f"{HERE.parent.name}/{HERE.name}:{number}"


# What the sizes of a program are and who asks for them.


class Bounded(nn.Module):
    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        at = start.item()
        torch._check(at >= 0)  # at least nothing
        torch._check(at + x.shape[1] <= 20)  # fits
        if x.shape[1] > 4:
            x = x + 1
        return x


EXAMPLE = (torch.zeros(1, 3, 8), torch.zeros(1, dtype=torch.long))


def captured_shapes(model: nn.Module, dims: Any) -> Shapes:
    with noting_conditions() as lines:
        program = export(model.eval(), EXAMPLE, dynamic_shapes=dims)
    return explain_shapes(program, lines)


def test_checks_are_named_by_the_line_that_makes_them() -> None:
    shapes = captured_shapes(Bounded(), ({1: Dim("rows", min=1, max=4)}, None))
    assert [(size.name, size.most) for size in shapes.varying] == [
        ("x.size(1)", 4),
        ("start.item()", 18),
    ]
    assert set(shapes.conditions) >= {
        Condition("start.item() >= 0", line_with("at least nothing"), True),
        Condition("x.size(1) + start.item() <= 20", line_with("fits"), True),
    }
    assert shapes.fixed == {"x.size(0)": 1, "x.size(2)": 8, "start.size(0)": 1}


def test_a_guard_is_named_by_the_line_that_narrows() -> None:
    shapes = captured_shapes(Bounded(), ({1: Dim.AUTO(min=1, max=10)}, None))
    line = line_with("at least nothing").split(":")
    narrowing = f"{line[0]}:{int(line[1]) + 2}"
    assert Condition("x.size(1) <= 4", narrowing, False) in shapes.conditions
    assert shapes.varying[0].most == 4


class Specialized(nn.Module):
    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        return x * 2 if x.shape[1] == 3 else x  # one size


class Reshaped(nn.Module):
    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        return x.view(3, 8) + 1  # three rows


class DataDependent(nn.Module):
    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        return x * 2 if x.sum() > 0 else x  # by the data


@pytest.mark.parametrize(
    ("model", "mark", "says"),
    [
        (Specialized, "one size", "requires x.size(1) == 3, but rows should vary more"),
        (Reshaped, "three rows", "requires 8*x.size(1) == 24, but rows should vary more"),
        (DataDependent, "by the data", "branches on numbers that are known only when the program"),
    ],
)
def test_a_model_that_cannot_be_captured_names_the_line(
    model: Callable[[], nn.Module],
    mark: str,
    says: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    silence_known_noise()
    dims = ({1: Dim("rows", min=1, max=10)}, None)
    with pytest.raises(REFUSALS) as caught:
        export(model().eval(), EXAMPLE, dynamic_shapes=dims)
    error = refused(model(), EXAMPLE, dims, caught.value)
    assert str(error).startswith(line_with(mark)) and says in str(error)
    assert "\n" not in str(error)
    assert capfd.readouterr() == ("", "")


class OneLength(CausalLM):
    """A decoder that works for three tokens alone."""

    def forward(self, tokens: Tensor, input_pos: Tensor) -> Tensor:
        if tokens.shape[1] == 3:  # three tokens
            return super().forward(tokens, input_pos)
        return super().forward(tokens[:, :1], input_pos)


def test_an_export_of_such_a_model_says_so() -> None:
    with pytest.raises(ExportError) as caught:
        capture(OneLength(TINY), CONTEXT, CONTEXT)
    assert str(caught.value) == (
        f"{line_with('three tokens')} requires tokens.size(1) == 3, but seq_len should vary more; "
        "write that line for every size, or restrict the sizes."
    )


# What became of the operators.


class ErrorFunction(MLP):
    """An MLP that no delegate's operator list has."""

    def forward(self, x: Tensor, context: Context | CachedContext) -> Tensor:
        return self.down_proj(torch.erf(self.gate_proj(x)) * self.up_proj(x))  # error function


class TwiceRead(DecoderLayer):
    """A layer whose norm is read by an addition too, so that no linear can have it alone."""

    def forward(self, x: Tensor, context: Context | CachedContext) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), context)
        normed = self.post_attention_layernorm(x)
        return normed + self.mlp(normed, context)  # norm and linears


@pytest.fixture
def odd_mlp(monkeypatch: pytest.MonkeyPatch) -> Iterator[CausalLM]:
    monkeypatch.setattr("exporter.models.decoder.MLP", ErrorFunction)
    yield random_model(TINY)


@pytest.mark.check
@pytest.mark.parametrize(
    ("delegate", "reason"),
    [
        (
            "cpu",
            "cpu: the delegate has no erf; it computes embeddings, RMSNorm, LayerNorm, linears",
        ),
        ("xnnpack", "xnnpack does not take it"),
    ],
)
def test_an_undelegated_operator_has_its_line_and_reason(
    odd_mlp: CausalLM, delegate: str, reason: str
) -> None:
    program = capture(odd_mlp, CONTEXT, CONTEXT)
    report = get_delegate(delegate).lower(program, {}, {}, True).report
    (left,) = [item for item in report.lines if item.operator == "erf"]
    assert left.line == line_with("error function") and left.count == 1
    assert left.reason.startswith(reason), left.reason


@pytest.mark.check
def test_a_norm_that_others_read_is_unfused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exporter.models.decoder.DecoderLayer", TwiceRead)
    model = quantized_model(random_model(TINY), Scheme("rtn4"))
    lowered = get_delegate("cpu").lower(capture(model, CONTEXT, CONTEXT), {}, {}, True)
    assert lowered.etrecord is not None
    found = why_unfused(lowered.etrecord.edge_dialect_program)
    norm = next(item for item in found if item.operator == "norm")
    assert norm.module_path == "model.layers.0.post_attention_layernorm"
    assert norm.line == model_line("return normed if self.weight is None")
    assert (
        norm.reason
        == f"its output is read by {line_with('norm and linears')}, not by linears alone"
    )


# The whole.


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory, one_layer_checkpoint: Path) -> Explained:
    """What the command prints for a delegate, and the JSON that it writes."""

    @cache
    def explain(delegate: str) -> tuple[str, dict[str, Any]]:
        path = tmp_path_factory.mktemp(delegate) / "explained.json"
        arguments = [str(one_layer_checkpoint), "--delegate", delegate, "--explain-json", str(path)]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
        return result.stdout.rstrip("\n"), json.loads(path.read_text(encoding="utf-8"))

    return explain


@pytest.mark.check
def test_an_explanation_of_the_decoder(explained: Explained) -> None:
    text, _ = explained("cpu")
    fits = model_line("torch._check(start_pos + seq_len <=")
    select = model_line("return self.head(x[:, -1])")
    rope = model_line("q, k = self._rotate(")
    for line in (
        "  tokens.size(1): 1 to 512",
        f"  input_pos.item(): 0 to 511 (read at {model_line('start_pos = cast(int')})",
        f"  {fits}: tokens.size(1) + input_pos.item() <= 512",
        f"  {rope}: 2 x chunk -> 2 x split_with_sizes_copy (an ExecuTorch program has no views, "
        "only copies)",
        f"  {select}: 1 x select -> 1 x select_copy (an ExecuTorch program has no views, only "
        "copies)",
        "operators that cpu does not run (1 call runs the others):",
    ):
        assert line in text.splitlines(), text
    assert text.endswith("though it can fuse their kind:\n  none")


@pytest.mark.check
def test_an_explanation_has_the_caches_of_each_type(explained: Explained) -> None:
    text, found = explained("cpu")
    (kept,) = found["caches"]
    heads = 2 * kept["positions"] * 4  # keys and values of four heads, of 8 numbers each
    assert found["cache_sizes"] == {
        "float32": heads * 32,
        "float16": heads * 16,
        "int8": heads * (8 + 4),  # each head has a scale
        "int8-int4": heads * (6 + 4),
        "int4": heads * (4 + 4),
    }
    assert found["cache_sizes"][found["cache_type"]] == kept["size"]
    line = "  in all, by a runner's --kv-cache: float32 0.1 MB, float16 65.5 kB, int8 49.2 kB, "
    assert f"{line}int8-int4 41.0 kB, int4 32.8 kB" in text.splitlines()
    text, found = explained("xnnpack")  # which has one type
    assert found["cache_sizes"] == {} and "--kv-cache" not in text


@pytest.mark.parametrize("delegate", ["cpu", *checked(["xnnpack"])])
def test_its_json_says_what_the_table_says(delegate: str, explained: Explained) -> None:
    text, found = explained(delegate)
    assert found["scheme"] == "gptq4"
    assert found["rotation"] == ("inputs" if delegate == "cpu" else "none")
    shapes, delegation = found["shapes"], found["delegation"]
    conditions, left, changes = shapes["conditions"], delegation["lines"], found["decompositions"]
    told = [f"{size['name']}: {size['least']} to {size['most']}" for size in shapes["varying"]]
    told += [f"{name} = {size}" for name, size in shapes["fixed"].items()]
    told += [f"{item['line']}: {item['text']}" for item in conditions]
    told += [
        f"{item['line']}: {item['count']} x {item['operator']}: {item['reason']}" for item in left
    ]
    told += [f"{item['layers']} layer" for item in found["caches"]]
    told += ["in all, by a runner's --kv-cache: "] if found["cache_sizes"] else []
    assert all(told.count(item) == 1 for item in told)
    lines = [line.strip() for line in text.splitlines() if line.startswith("  ")]
    for item in told:
        assert any(line.startswith(item) for line in lines), item
    for change in changes:
        (line,) = [
            line
            for line in lines
            if line.startswith(f"{change['line']}: ") and line.endswith(f"({change['reason']})")
        ]
        for side, part in zip(("captured", "became"), line.split(" -> "), strict=True):
            for name, count in change[side].items():
                assert f"{count} x {name}" in part
    assert conditions and changes and found["unfused"] == []
    assert bool(left) is (delegate == "xnnpack")  # the CPU delegate runs all of it
    assert len(lines) == len(told) + len(changes) + text.splitlines().count("  none")


@pytest.mark.check
def test_adapters_that_are_kept_apart_are_explained(
    one_layer_checkpoint: Path, tmp_path: Path
) -> None:
    spec = open_checkpoint(one_layer_checkpoint).config
    adapter = save_adapter(tmp_path / "a", spec, 1, linears=["q_proj", "o_proj"])
    written = tmp_path / "explained.json"
    arguments = [str(one_layer_checkpoint), "--adapter", f"a={adapter}"]
    result = CliRunner().invoke(main, [*arguments, "--explain-json", str(written)])
    assert result.exit_code == 0, result.output
    delegation = json.loads(written.read_text(encoding="utf-8"))["delegation"]
    assert delegation["delegated"]["thimble::low_rank"] == 2 and not delegation["lines"]
    result = CliRunner().invoke(main, [*arguments, "--explain", "--delegate", "xnnpack"])
    assert result.exit_code == 2 and "xnnpack does not keep adapters apart" in result.stderr


def test_explaining_writes_no_file(one_layer_checkpoint: Path, tmp_path: Path) -> None:
    arguments = [str(one_layer_checkpoint), "--explain", "--out", str(tmp_path / "model.pte")]
    with pytest.raises(click.UsageError, match="--explain exports nothing; leave out --out"):
        main(arguments, standalone_mode=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.check
def test_the_command_explains_or_says_why_not(
    one_layer_checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("exporter.plan.plan.CausalLM", OneLength)
    written = tmp_path / "explained.json"
    with pytest.raises(SystemExit) as ended:
        main([str(one_layer_checkpoint), "--explain-json", str(written)], standalone_mode=False)
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert said.out == "" and not list(tmp_path.iterdir())
    assert said.err.splitlines()[-1].startswith(f"Error: {line_with('three tokens')} requires")


def rotated(rotation: str) -> Method:
    """The method of rtn4 with a rotation."""
    return replace(METHODS["rtn4"], rotation=rotation)


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        (Scheme("gptq4", 64, 4), Scheme("rtn4", 64, 4, rotated("inputs"))),
        (Scheme("gptq4", method=Method(rotation="none")), Scheme("rtn4", method=rotated("none"))),
        (
            Scheme("gptq4", method=Method(rotation="learned")),
            Scheme("rtn4", method=rotated("hadamard")),
        ),
        (Scheme("rtn8"), Scheme("rtn8", method=METHODS["rtn8"])),
        (Scheme("none"), Scheme("none")),
    ],
)
def test_the_scheme_that_makes_the_same_graph(asked: Scheme, taken: Scheme) -> None:
    assert quick_scheme(asked) == taken


@pytest.mark.check
def test_the_method_counts(one_layer_checkpoint: Path, tmp_path: Path) -> None:
    written = tmp_path / "explained.json"
    arguments = [str(one_layer_checkpoint), "--explain-json", str(written), "--method"]
    result = CliRunner().invoke(main, [*arguments, "rotation=none"])
    assert result.exit_code == 0, result.output
    assert json.loads(written.read_text(encoding="utf-8"))["rotation"] == "none"
    result = CliRunner().invoke(main, [*arguments, "rotation=all"])
    assert result.exit_code == 2 and "method rotation='all' is not supported" in result.stderr
