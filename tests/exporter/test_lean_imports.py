"""What imports of the compilers leave out, and how threads wait, in a process of its own."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys

from exporter.command_line.waiting import wait_briefly

wait_briefly()

import torch

from exporter.capture.lean_imports import import_compilers

LEFT_OUT = "wcwidth", "networkx", "torch._inductor.fx_passes.post_grad"

import_compilers()
assert "executorch.exir" in sys.modules
assert not [name for name in LEFT_OUT if name in sys.modules]

from executorch.exir.program._program import unsafe_remove_auto_functionalized_pass

@torch.library.custom_op("lean::add_one", mutates_args={"x"})
def add_one(x: torch.Tensor) -> None:
    x.add_(1)

class Net(torch.nn.Module):
    def forward(self, x):
        y = x * 2
        torch.ops.lean.add_one(y)
        return y

def functionalized(program):
    return [node for node in program.graph.nodes if "auto_functionalized" in str(node.target)]

program = torch.export.export(Net(), (torch.zeros(3),)).run_decompositions({})
assert functionalized(program)
unsafe_remove_auto_functionalized_pass(program)
assert not functionalized(program)
assert program.module()(torch.zeros(3)).tolist() == [1, 1, 1]

import networkx
import torch._inductor.fx_passes.post_grad as post_grad
import wcwidth

assert networkx.path_graph(3).number_of_edges() == 2
assert post_grad.PatternMatcherPass and wcwidth.wcswidth("ab") == 2
assert torch.compile(lambda x: x + 1, backend="inductor")
"""


@pytest.mark.check
def test_what_is_left_out_stays_importable() -> None:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "OMP_DISPLAY_ENV": "verbose"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert "GOMP_SPINCOUNT = '1000'" in result.stderr
