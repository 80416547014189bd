"""The conversion to the edge dialect in place, beside ExecuTorch's own."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge
from support.odd_models import captured_odd, random_decoder
from support.tiers import checked, soaked
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export, exported_program
from torch.fx import Node

from delegates import get_delegates
from delegates.module import lower_method
from delegates.passes.composites import composites_listed_once
from delegates.passes.exact import Functional
from delegates.passes.in_place import passes_in_place


class Function(nn.Module):
    """A function of one tensor, (rows, 4); the number of rows is dynamic."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


FUNCTIONS = {
    "numbers": lambda x: (x + 1.5) * 2 - 1e-5,
    "an integer beside floats": lambda x: x * 3,
    "two types": lambda x: x + torch.arange(4),
    "integers divided": lambda x: x.to(torch.int64) / torch.arange(1, 5),
    "divided and rounded": lambda x: torch.div(x, 2.0, rounding_mode="floor"),
    "views": lambda x: x.unsqueeze(0).transpose(1, 2).flatten(0, 1).narrow(0, 1, 2).t(),
    "a size for a tensor": lambda x: x * x.shape[0],
    "halves and a number": lambda x: x.half() + 0.5,
    "branches": lambda x: torch.cond(
        x.sum() > 0, lambda y: (y + 1).view(-1), lambda y: (y * 2.0).view(-1), (x,)
    ),
}


def described(program: ExportedProgram) -> list[Any]:
    """Each node's name, operator, arguments, origin, and the example that it carries."""
    return [
        (module_name, node.name, node.op, str(node.target), of(node))
        for module_name, module in program.graph_module.named_modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
    ]


def of(node: Node) -> Any:
    value = node.meta.get("val")
    arguments = [str(each) if not isinstance(each, Node) else each.op for each in node.args]
    if any(isinstance(each, list | tuple) for each in node.args):
        arguments = []  # of names, which are a trace's own
    tensor = (value.dtype, str(value.shape), str(value.stride())) if torch.is_tensor(value) else ()
    return arguments, tensor, "debug_handle" in node.meta


def edge_program(program: ExportedProgram) -> ExportedProgram:
    config = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)
    return to_edge(program, compile_config=config).exported_program()


def in_place(program: ExportedProgram) -> ExportedProgram:
    with passes_in_place():
        return edge_program(program)


@pytest.mark.parametrize("name", [*list(FUNCTIONS)[:2], *checked(list(FUNCTIONS)[2:])])
def test_it_is_executorchs(name: str) -> None:
    module = Function(FUNCTIONS[name])
    x = torch.randn(3, 4)
    shapes = None if name == "branches" else ({0: Dim("rows", min=2, max=9)},)
    program = export(module, (x,), dynamic_shapes=shapes)
    expected, found = edge_program(program), in_place(program)
    assert described(found) == described(expected)
    assert torch.equal(found.module()(x), expected.module()(x))


@pytest.mark.parametrize("seed", [*checked([0]), *soaked(range(1, 3))])
def test_decoders(seed: int) -> None:
    program = captured_odd(random_decoder(seed))
    expected, found = edge_program(program), in_place(program)
    assert described(found) == described(expected)
    ours, theirs = found.state_dict, expected.state_dict
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.check
@pytest.mark.parametrize("names", [*soaked(["cpu,xnnpack"]), "xnnpack"])
def test_a_module_without_executorchs_first_trace(
    names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = nn.Sequential(
        nn.Conv1d(4, 8, 3, padding=1), nn.GELU(), nn.LayerNorm(6), nn.Linear(6, 4), nn.Softmax(-1)
    )
    x = (torch.randn(2, 4, 6),)
    program = export(module, x, dynamic_shapes=({0: Dim("rows", max=9)},)).run_decompositions({})

    def lowered() -> ExportedProgram:
        method = lower_method(get_delegates(names), "forward", program, with_etrecord=False)
        return method.edge.exported_program("forward")

    with composites_listed_once():
        found = lowered()
    monkeypatch.setattr(Functional, "run_decompositions", ExportedProgram.run_decompositions)
    assert described(found) == described(lowered())


def test_the_list_of_composites_has_what_is_registered_later() -> None:
    """torchao's operators are, when integers are lowered; XNNPACK takes them whole."""
    with composites_listed_once():
        before = exported_program._collect_all_valid_cia_ops()
        assert exported_program._collect_all_valid_cia_ops() is before
        with torch.library._scoped_library("thimble_later", "DEF") as library:
            library.define("twice(Tensor x) -> Tensor")
            library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
            later = exported_program._collect_all_valid_cia_ops()
            assert later - before == {torch.ops.thimble_later.twice.default}


def test_tensors_of_size_0_are_left_by_that_name() -> None:
    class Square(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * x

    program = export(Square(), (torch.zeros(0, 2),)).run_decompositions({})
    lowered = lower_method(get_delegates("xnnpack"), "forward", program, with_etrecord=False)
    (left,) = lowered.report.lines
    assert (left.operator, left.reason) == ("mul", "xnnpack: it takes no tensors of size 0")
