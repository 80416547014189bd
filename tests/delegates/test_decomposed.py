"""The decomposition of captured decoders without a trace, beside PyTorch's own."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
import torch
from support.llama_config import LLAMA
from support.odd_models import captured_odd, random_decoder
from support.small_models import quantized_model, random_model
from support.tiers import soaked
from torch import Tensor, nn
from torch.export import ExportedProgram, export

from delegates.op_list import lower
from delegates.op_list.canonicalize import tidy
from delegates.passes.decomposed import Decomposed, decomposed
from exporter.capture.program import capture
from exporter.models.families import decoder_spec
from quant.scheme import Scheme

CONTEXT, CALL = 40, 24


def described(program: ExportedProgram) -> list[str]:
    """Each node's name, operator, arguments, line and example; each of the signature's entries.
    The order of the weights has no meaning."""
    found = []
    inputs = program.graph.find_nodes(op="placeholder")
    calls = [node for node in program.graph.nodes if node.op != "placeholder"]
    for node in [*sorted(inputs, key=str), *calls]:
        value = node.meta.get("val")
        tensor = isinstance(value, Tensor)
        example = (value.dtype, value.shape, value.stride()) if tensor else value
        line = node.meta.get("stack_trace")
        found.append(f"{node.name} {node.target} {node.args} {node.kwargs} {example} {line}")
    found += sorted(map(str, program.graph_signature.input_specs))
    found += map(str, program.graph_signature.output_specs)
    return [re.sub(r"\bu\d+", "u", line) for line in found]  # a trace numbers symbols anew


LFM2 = {"block_ff_dim": 144, "block_multiple_of": 32, "layer_types": ["conv", "full_attention"] * 2}


def of_family(name: str, scheme: str, **fields: Any) -> ExportedProgram:
    model = random_model(decoder_spec({**LLAMA, "model_type": name, **fields}))
    return capture(
        model if scheme == "none" else quantized_model(model, Scheme(scheme)), CONTEXT, CALL
    )


def odd(seed: int) -> ExportedProgram:
    return captured_odd(random_decoder(seed))


PROGRAMS: dict[str, Callable[[], ExportedProgram]] = {
    "llama, rtn4": lambda: of_family("llama", "rtn4"),
    "llama, none": lambda: of_family("llama", "none"),
    "lfm2, none": lambda: of_family("lfm2", "none", **LFM2),
    "gemma2, rtn8": lambda: of_family("gemma2", "rtn8"),
    "phi, none": lambda: of_family("phi", "none"),
    "qwen3, rtn4": lambda: of_family("qwen3", "rtn4", num_key_value_heads=2),
    **{f"odd {seed}": partial(odd, seed) for seed in range(3)},
}
OFTEN = ["llama, rtn4", "lfm2, none", "gemma2, rtn8"]


@pytest.mark.check
@pytest.mark.parametrize(
    "name",
    [*OFTEN, *soaked([name for name in PROGRAMS if name not in OFTEN])],
)
def test_it_is_pytorchs(name: str) -> None:
    program = PROGRAMS[name]()
    before = described(program)
    ours = lower.to_edge_program(program, {}, False).exported_program()
    assert described(program) == before
    with patch.object(lower, "decomposed", lambda given, _: given):
        pytorchs = lower.to_edge_program(program, {}, False).exported_program()
    for edge in (ours, pytorchs):
        tidy(edge)
    assert described(ours) == described(pytorchs)
    assert ours.state_dict.keys() == pytorchs.state_dict.keys()


def test_a_decoder_is_not_traced() -> None:
    assert isinstance(decomposed(PROGRAMS[OFTEN[0]](), lower.KEPT), Decomposed)


class Function(nn.Module):
    def __init__(self, function: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.function = function
        self.kept = nn.Buffer(torch.zeros(3, 4))

    def forward(self, x: Tensor) -> Any:
        return self.function(x, self.kept)


OTHERS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "decomposed": lambda x, kept: nn.functional.hardswish(x),
    "composed": lambda x, kept: x.softmax(-1).reshape(-1),
    "written": lambda x, kept: kept.add_(x) * 2,
    "a view of what was written": lambda x, kept: (kept[0], kept.copy_(x))[0] * 2,
    "random": lambda x, kept: torch.rand_like(x) + x,
    "a copy to flatten": lambda x, kept: x.transpose(0, 1).flatten(),
    "an input": lambda x, kept: (x + kept, x),
    "branches": lambda x, kept: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_else_there_is_is_pytorchs(name: str) -> None:
    program = export(Function(OTHERS[name]), (torch.randn(3, 4),))
    assert decomposed(program, ()) is program
