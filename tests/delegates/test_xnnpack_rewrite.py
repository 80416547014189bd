"""The first passes: stock operators in place of ours, the same numbers, every source line kept."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from support.decoder_specs import SMALL, varied
from support.exported import Exported
from support.xnnpack_programs import INPUTS, OUTPUTS, captured, lowered_output
from torch import Tensor, nn

from delegates.passes.quantized import expand_linears
from delegates.passes.stock_operators import pack_int4, rewrite_attention, rewrite_embeddings
from exporter.capture.program import capture
from exporter.models.decoder import CausalLM
from quant.modules import QuantizedEmbedding, QuantizedLinear, QuantizedWeight
from quant.weight_type import INT8, int4

pytestmark = pytest.mark.check

ROWS = 50
TOKENS = torch.tensor([[0, 49, 7, 7, 31]])


def embedding(bits: int, columns: int, group: int, size: int) -> QuantizedEmbedding:
    generator = torch.Generator().manual_seed(columns)
    low, high = (-8, 8) if bits == 4 else (-128, 128)
    values = torch.randint(low, high, (ROWS, columns), generator=generator, dtype=torch.int8)
    scales = torch.rand(ROWS, columns // group, generator=generator)
    kind = INT8 if bits == 8 else int4(group)
    return QuantizedEmbedding(QuantizedWeight(values, scales, kind), size)


@pytest.mark.parametrize(
    ("bits", "columns", "group", "size", "operator"),
    [
        (8, 64, 64, 64, "embedding_byte"),
        (8, 40, 40, 40, "embedding_byte"),
        (4, 64, 32, 64, "embedding_4bit"),
        (4, 96, 32, 72, "embedding_4bit"),  # padded to whole groups
        (4, 32, 32, 32, "embedding_4bit"),  # one group a row
    ],
)
def test_an_embedding_is_gathered_by_the_stock_operator(
    tmp_path: Path, bits: int, columns: int, group: int, size: int, operator: str
) -> None:
    module = embedding(bits, columns, group, size)
    program = captured(module, TOKENS)
    assert rewrite_embeddings(program) == 1
    targets = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert f"quantized_decomposed.{operator}.default" in targets
    assert not any("aten.embedding" in target for target in targets)
    out = lowered_output(module, TOKENS, tmp_path / "embedding.pte")
    assert torch.equal(out, module(TOKENS))


def test_two_embeddings_keep_their_own_tables(tmp_path: Path) -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = embedding(4, 64, 32, 64)
            self.second = embedding(8, 64, 64, 64)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.first(tokens) + self.second(tokens)

    module = Sum()
    out = lowered_output(module, TOKENS, tmp_path / "sum.pte")
    torch.testing.assert_close(out, module(TOKENS), rtol=1e-6, atol=1e-5)


def test_a_float_embedding_is_left_alone() -> None:
    program = captured(nn.Embedding(ROWS, 8), TOKENS)
    assert rewrite_embeddings(program) == 0


def test_gelu_by_tanh_is_not_the_exact_one(tmp_path: Path) -> None:
    """XNNPACK computes the exact form, whatever `approximate` is: 4.7e-4 away."""

    class Activation(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.gelu(self.linear(x), approximate="tanh")

    module, x = Activation(), torch.linspace(-4, 4, 40).reshape(1, 5, 8)
    out = lowered_output(module, x, tmp_path / "gelu.pte")
    torch.testing.assert_close(out, module(x), atol=1e-6, rtol=1e-5)
    assert (out - nn.functional.gelu(module.linear(x))).abs().max() > 1e-4


def test_int4_packing_holds_every_value() -> None:
    values = torch.arange(-8, 8, dtype=torch.int8).repeat(2, 1)
    packed = pack_int4(values)
    assert packed.dtype == torch.uint8 and packed.shape == (2, 8)
    assert torch.equal((packed >> 4).to(torch.int8) - 8, values[:, 0::2])
    assert torch.equal((packed & 15).to(torch.int8) - 8, values[:, 1::2])


def linear(bits: int, seed: int) -> QuantizedLinear:
    generator = torch.Generator().manual_seed(seed)
    groups = 1 if bits == 8 else INPUTS // 32
    values = torch.randint(-8, 8, (OUTPUTS, INPUTS), generator=generator, dtype=torch.int8)
    scales = (torch.rand(OUTPUTS, groups, generator=generator) + 0.5).bfloat16().float()
    kind = INT8 if bits == 8 else int4(32)
    return QuantizedLinear(QuantizedWeight(values, scales, kind), INPUTS)


class Projections(nn.Module):
    """Three linears on one activation, as q, k and v are, and one on another."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (linear(4, seed) for seed in range(3))
        self.other = linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.q(x) + self.k(x) * self.v(x) + self.other(x.exp())


def test_linears_of_one_input_share_its_rounding(tmp_path: Path) -> None:
    module = Projections()
    x = torch.randn(1, 6, INPUTS, generator=torch.Generator().manual_seed(2))
    program = captured(module, x)
    assert expand_linears(program) == 4
    counted = Counter(str(node.target) for node in program.graph.nodes)
    assert counted["torchao.choose_qparams_affine.default"] == 2  # of x, and of exp(x)
    assert counted["aten.linear.default"] == 4
    out = lowered_output(module, x, tmp_path / "shared.pte")
    torch.testing.assert_close(out, module(x), rtol=1e-4, atol=1e-3)


def _tiny_model() -> CausalLM:
    config = varied(
        SMALL,
        vocab_size=ROWS,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        tie_word_embeddings=False,
    )
    model = CausalLM(config)
    model.model.embed_tokens = embedding(8, 32, 32, 32)  # type: ignore[assignment]
    return model


def _source(node: Any) -> tuple[Any, Any]:
    return node.meta.get("stack_trace"), node.meta.get("nn_module_stack")


def test_a_new_node_carries_the_source_of_the_one_it_replaces() -> None:
    program = capture(_tiny_model(), 64, 64)
    before = {_source(node)[0] for node in program.graph.nodes}
    attention = [
        _source(node)
        for node in program.graph.find_nodes(
            op="call_function", target=torch.ops.thimble.cached_attention.default
        )
    ]
    assert len(attention) == rewrite_attention(program) == 2
    for target, times in (
        (torch.ops.llama.update_cache.default, 2),
        (torch.ops.llama.custom_sdpa.default, 1),
    ):
        nodes = program.graph.find_nodes(op="call_function", target=target)
        assert [_source(node) for node in nodes] == [x for x in attention for _ in range(times)]
    for stack_trace, modules in attention:
        assert "exporter/models/attention.py" in stack_trace
        assert [kind for _, kind in modules.values()][-1] == "exporter.models.attention.Attention"

    assert rewrite_embeddings(program) == 1
    (node,) = program.graph.find_nodes(
        op="call_function", target=torch.ops.quantized_decomposed.embedding_byte.default
    )
    stack_trace, modules = _source(node)
    assert stack_trace in before and "exporter/models/decoder.py" in stack_trace
    assert [path for path, _ in modules.values()][-1] == "model.embed_tokens"


def test_every_instruction_has_a_debug_handle(stories_gptq_export: Exported) -> None:
    """Of the finished program: what computes maps to the captured graph, mutations included."""
    manager = stories_gptq_export.manager
    plan = manager.executorch_program.execution_plan[0]
    (chain,) = plan.chains
    handles = manager.debug_handle_map["forward"]
    kernels, delegates = 0, 0
    for index, instruction in enumerate(chain.instructions):
        call = instruction.instr_args
        if type(call).__name__ == "DelegateCall":
            assert handles[index] and all(handle > 0 for handle in handles[index])
            delegates += 1
        elif type(call).__name__ == "KernelCall":
            name = plan.operators[call.op_index].name
            # ExecuTorch keeps none for a view, which moves no data.
            assert handles.get(index, 0) > 0 or name == "executorch_prim::et_view", name
            kernels += 1
    assert delegates == stories_gptq_export.result.delegation.calls
    assert kernels > 50


def test_every_delegated_node_has_its_handle_and_source(stories_gptq_export: Exported) -> None:
    graph_module = stories_gptq_export.manager.exported_program().graph_module
    delegated = 0
    for _, lowered in graph_module.named_children():
        for node in lowered.original_module.graph.nodes:
            if node.op == "call_function":
                assert node.meta["debug_handle"] > 0, node
                assert ".py" in node.meta["stack_trace"], node
                assert node.meta["nn_module_stack"], node
                delegated += 1
    assert delegated > 200


def test_the_etrecord_resolves_every_handle(stories_gptq_export: Exported) -> None:
    """The record beside the file holds the graph that the handles point into."""
    from executorch.devtools.etrecord import parse_etrecord

    path = stories_gptq_export.path.with_suffix(".etrecord")
    record = parse_etrecord(str(path))
    edge = record.edge_dialect_program
    assert edge is not None
    known = {node.meta["debug_handle"] for node in edge.graph.nodes if "debug_handle" in node.meta}
    manager = stories_gptq_export.manager
    for handles in manager.debug_handle_map["forward"].values():
        assert set([handles] if isinstance(handles, int) else handles) <= known
