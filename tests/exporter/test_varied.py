"""An example with a size of 1 is captured for every size of its Dim."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from exporter.errors import ExportError
from exporter.module.capture import capture_module
from exporter.module.source import Inputs, Made

BATCH, TIME = Dim("batch", min=1, max=8), Dim("time", min=1, max=4)


class Joined(nn.Module):
    def forward(self, pair: list[Tensor], *rest: Tensor) -> Tensor:
        return torch.cat([pair[0] + pair[1], *rest], -1)


def x(*sizes: int) -> Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(0))


CASES: dict[str, tuple[nn.Module, Inputs, Any]] = {
    "one": (nn.Linear(3, 2), Inputs((x(1, 3),)), ({0: BATCH},)),
    "two sizes": (nn.Linear(3, 2), Inputs((x(1, 1, 3),)), ([BATCH, TIME, None],)),
    "by name": (nn.ReLU(), Inputs((), {"input": x(1, 3)}), {"input": {0: BATCH}}),
    "nested": (
        Joined(),
        Inputs(([x(1, 3), x(1, 3)], x(1, 2), x(1, 1))),
        ([{0: BATCH}, {0: BATCH}], ({0: BATCH}, {0: BATCH})),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_varies(name: str) -> None:
    module, inputs, shapes = CASES[name]
    program = capture_module(Made(module.eval(), inputs, shapes, []))
    given = [node for node in program.graph.find_nodes(op="placeholder")]
    sizes = [node.meta["val"].shape[0] for node in given if not node.name.startswith("p_")]
    assert len(sizes) == len(inputs.leaves())
    assert not any(isinstance(size, int) for size in sizes)
    got, want = program.module()(*inputs.args, **inputs.kwargs), inputs.call(module)
    torch.testing.assert_close(got, want)


def test_a_size_that_is_none_is_refused() -> None:
    made = Made(nn.ReLU().eval(), Inputs((x(2, 3),)), ({5: BATCH},), [])
    with pytest.raises(ExportError, match=r"name size 5 of an input of sizes \(2, 3\)"):
        capture_module(made)
