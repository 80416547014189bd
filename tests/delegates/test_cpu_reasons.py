"""Why the CPU delegate leaves an operator outside, and why it keeps one by itself: each reason, of
a module that asks for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.odd_models import CONTEXT
from support.tiers import checked_rows
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.nn import functional as F

from delegates.cpu.lower import to_edge_program
from delegates.op_list.canonicalize import tidy
from delegates.op_list.graph import Constants, operator_name
from delegates.op_list.ops import Values
from delegates.op_list.partition import find_calls
from delegates.op_list.unfused import why_unfused

WIDTH, HEADS, HEAD_DIM = 32, 2, 16
HERE = "/".join(Path(__file__).parts[-2:])  # as it is imported
Forward = Callable[["Parts", Tensor, Any], Any]


class Parts(nn.Module):
    """Parts of a decoder, which a case puts together."""

    k_cache: Tensor
    v_cache: Tensor

    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.case = forward
        self.a, self.b, self.c = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.weight = nn.Parameter(torch.rand(WIDTH))
        self.head_weight = nn.Parameter(torch.rand(HEAD_DIM))
        self.table = nn.Parameter(torch.rand(9, WIDTH))
        self.register_buffer("values", torch.zeros(WIDTH, WIDTH, dtype=torch.int8))
        self.register_buffer("scales", torch.ones(WIDTH, 1))
        for name in ("k_cache", "v_cache"):
            self.register_buffer(name, torch.zeros(1, CONTEXT, HEADS, HEAD_DIM))
        angles = torch.rand(2 * CONTEXT, 1, HEAD_DIM // 2)
        cos, sin = angles.cos(), angles.sin()
        self.register_buffer("cos", torch.cat((cos, cos), -1)[:CONTEXT].contiguous())
        self.register_buffer("sin", torch.cat((-sin, sin), -1)[:CONTEXT].contiguous())
        self.register_buffer("long_cos", torch.cat((cos, cos), -1))
        self.register_buffer("long_sin", torch.cat((-sin, sin), -1))
        self.register_buffer("odd_sin", torch.cat((sin, sin), -1))

    def forward(self, x: Tensor, pos: Tensor) -> Any:
        start_pos = pos.item()
        torch._check(start_pos >= 0)
        torch._check(start_pos + x.shape[1] <= CONTEXT)
        return self.case(self, x, start_pos)

    def norm(self, x: Tensor, eps: float = 1e-5) -> Tensor:
        weight = self.head_weight if x.dim() == 4 else self.weight
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight

    def rotate(self, x: Tensor, start_pos: Any, cos: str = "cos", sin: str = "sin") -> Tensor:
        tables = getattr(self, cos), getattr(self, sin)
        c, s = (table.narrow(0, start_pos, x.shape[1]) for table in tables)
        first, second = x.chunk(2, dim=-1)
        return x * c + torch.cat((second, first), dim=-1) * s

    def attend(self, q: Tensor, k: Tensor, v: Tensor, start_pos: Any) -> Tensor:
        return torch.ops.thimble.cached_attention(
            q, k, v, self.k_cache, self.v_cache, start_pos, 0.25
        ).flatten(2)

    def quantized(self, x: Tensor, bits: int, group_size: int, levels: int) -> Tensor:
        stored = self.values, self.scales, None
        return torch.ops.thimble.linear(x, *stored, bits, group_size, levels)


def heads(x: Tensor) -> Tensor:
    return x.view(1, x.shape[1], HEADS, HEAD_DIM)


def edge_of(forward: Forward) -> ExportedProgram:
    example = torch.randn(1, 3, WIDTH), torch.zeros(1, dtype=torch.long)
    module = Parts(forward).eval().requires_grad_(False)
    dims = ({1: Dim("length", min=1, max=CONTEXT)}, None)
    program = export(module, example, dynamic_shapes=dims)
    return to_edge_program(program, {}, False).exported_program()


def two_norms(m: Parts, x: Tensor, p: Any) -> Tensor:
    q, k = m.norm(heads(m.a(x))), m.norm(heads(m.b(x)), eps=1e-3)
    return m.attend(q, k, heads(m.c(x)), p)


def one_rotation(m: Parts, x: Tensor, p: Any) -> Tensor:
    return m.attend(m.rotate(heads(m.a(x)), p), heads(m.b(x)), heads(m.c(x)), p)


def rotations(m: Parts, x: Tensor, p: Any, *tables: str) -> tuple[Tensor, Tensor]:
    return m.rotate(heads(m.a(x)), p, *tables), m.rotate(heads(m.b(x)), p, *tables)


def with_queries(m: Parts, x: Tensor, p: Any) -> Any:
    q, k = rotations(m, x, p)
    return m.attend(q, k, heads(m.c(x)), p), q * 2


def with_keys(m: Parts, x: Tensor, p: Any) -> Any:
    q, k = rotations(m, x, p)
    return m.attend(q, k, heads(m.c(x)), p), k * 2


def with_unrotated(m: Parts, x: Tensor, p: Any) -> Any:
    a = m.a(x)
    q, k = m.rotate(heads(a), p), m.rotate(heads(m.b(x)), p)
    return m.attend(q, k, heads(m.c(x)), p), a * 2


def with_unnormed(m: Parts, x: Tensor, p: Any) -> Any:
    a = m.a(x)
    return m.attend(m.norm(heads(a)), heads(m.b(x)), heads(m.c(x)), p), a * 2


def long_tables(m: Parts, x: Tensor, p: Any) -> Tensor:
    return m.attend(*rotations(m, x, p, "long_cos", "long_sin"), heads(m.c(x)), p)


def normed_values(m: Parts, x: Tensor, p: Any) -> Tensor:
    return m.attend(heads(m.a(x)), heads(m.b(x)), m.norm(heads(m.c(x))), p)


def normed_rotated(m: Parts, x: Tensor, p: Any) -> Tensor:
    q, k = rotations(m, x, p)
    return m.attend(m.norm(q), m.norm(k), heads(m.c(x)), p)


def attended(m: Parts, q: Tensor, k: Tensor, v: Tensor, p: Any) -> Tensor:
    return m.attend(heads(q), heads(k), heads(v), p)


def read_twice(m: Parts, x: Tensor, p: Any) -> Tensor:
    q = m.a(x)
    return attended(m, q, m.b(x), m.c(x), p) + q


def mixed_formats(m: Parts, x: Tensor, p: Any) -> Tensor:
    return F.silu(m.quantized(x, 8, 0, 1)) * m.b(x)


def gated_twice(m: Parts, x: Tensor, p: Any) -> Any:
    gate = F.silu(m.a(x))
    return gate * m.b(x), gate + x


def later_read(m: Parts, x: Tensor, p: Any) -> Any:
    x = x * 2
    return m.b(x + m.a(x)) + m.c(x)


# The operator that stands alone, and why. Lines are those of this file.
UNFUSED: list[tuple[Forward, str, str]] = [
    (normed_rotated, "rotate", "its output is read by {}, not by one attention alone"),
    (with_queries, "rotate", "its output is read by {}, not by one attention alone"),
    (with_keys, "rotate", "its twin's output is read by others than the attention too"),
    (one_rotation, "rotate", "queries and keys are not both rotated, by the same tables"),
    (
        with_unrotated,
        "rotate",
        "what it rotates is read by others too, and attention rotates it in place",
    ),
    (long_tables, "rotate", "its tables have other positions than the cache"),
    (normed_values, "norm", "attention norms queries and keys alone"),
    (
        with_unnormed,
        "norm",
        "what it norms is read by others too, and attention norms it in place",
    ),
    (two_norms, "norm", "queries and keys are normed with different eps"),
    (
        lambda m, x, p: m.rotate(m.norm(heads(m.a(x))), p),
        "norm",
        "its output is read by {}, not by one attention alone",
    ),
    (
        lambda m, x, p: m.norm(x) + m.a(x),
        "norm",
        "its output is read by {}, not by linears alone",
    ),
    (
        lambda m, x, p: m.norm(m.a(x)),
        "norm",
        "its output is read outside the delegate, not by linears alone",
    ),
    (
        lambda m, x, p: F.silu(m.a(x)[:, -1]),
        "select_last",
        "its output is read by {}, not by linears alone",
    ),
    (gated_twice, "multiply", "the silu of one factor is read by others too"),
    (
        lambda m, x, p: F.silu(m.a(x)) * x,
        "glu",
        "gate and up do not each come from a linear of their own",
    ),
    (
        read_twice,
        "attention",
        "one of query, key and value is read by others too, so their linears are not one matrix",
    ),
    (
        lambda m, x, p: attended(m, m.a(x), m.b(2 * x), m.c(x), p),
        "attention",
        "the linears of query, key and value read different inputs",
    ),
    (mixed_formats, "glu", "the weights of gate and up are of different formats"),
    (lambda m, x, p: m.a(x + x), "add", "it adds rows to themselves"),
    (
        lambda m, x, p: m.a(x + 2 * x),
        "add",
        "neither operand comes from a linear, which could add its output to the other",
    ),
    (
        later_read,
        "add",
        "the linear's output is read by others too, or the other operand is read again later",
    ),
]


@pytest.mark.parametrize(
    ("forward", "operator", "reason"), [*UNFUSED[:4], *checked_rows(UNFUSED[4:])]
)
def test_what_is_not_fused_has_a_reason(forward: Forward, operator: str, reason: str) -> None:
    found = [item for item in why_unfused(edge_of(forward)) if item.operator == operator]
    before, _, behind = reason.partition("{}")
    reasons = [item.reason for item in found]
    assert any(said.startswith(before) and said.endswith(behind) for said in reasons), reasons
    assert all(item.line.startswith(HERE) for item in found)
    if behind:
        assert any(f"{HERE}:" in said for said in reasons)


# The operator that is left outside, and why.
LEFT: list[tuple[Forward, str, str]] = [
    (lambda m, x, p: x.view(1, -1, 4, 2, 4), "view", "it takes rows as heads, and heads as rows"),
    (lambda m, x, p: x.view(1, -1, 2, 16), "view", "it only passes on a value"),
    (lambda m, x, p: x[:, -1], "select", "it only passes on a value between operators"),
    (
        lambda m, x, p: F.embedding(x.argmax(-1), m.table * 2),
        "embedding",
        "its table is computed, not a constant",
    ),
    (
        lambda m, x, p: F.embedding(x.argmax(-1).unsqueeze(0), m.table),
        "embedding",
        "of (1, 1, s27); it takes tokens of int64, (1, seq_len)",
    ),
    (lambda m, x, p: F.linear(x, m.table * 2), "linear", "its weight is computed, not a constant"),
    (
        lambda m, x, p: F.linear(x, m.table, x[0, 0, :9] * 2),
        "linear",
        "its bias is computed, not a constant",
    ),
    (
        lambda m, x, p: F.linear(heads(x), m.table[:, :16].clone()),
        "linear",
        "its weight is computed, not a constant",
    ),
    (
        lambda m, x, p: F.linear(x.unsqueeze(2), m.table),
        "linear",
        "of (1, s27, 1, 32) to (1, s27, 1, 9); it takes rows of float32, (1, seq_len, width)",
    ),
    (
        lambda m, x, p: torch.ops.thimble.linear(x, 2 * m.values, m.scales, None, 8, 0, 1),
        "thimble::linear",
        "its weight is computed, not a constant",
    ),
    (lambda m, x, p: m.quantized(x, 4, 16, 2), "thimble::linear", "it has groups of 16; it takes"),
    (
        lambda m, x, p: torch.ops.thimble.linear(x, m.values, m.scales, None, 8, 0, 1, 8),
        "thimble::linear",
        "it rotates 32 columns in blocks of 8; it takes blocks of 16, 32 or 64 that divide them",
    ),
    (
        lambda m, x, p: m.quantized(x, 3, 32, 1),
        "thimble::linear",
        "its weight has 3 bits, groups of 32 and scales on 1 levels. In groups it takes",
    ),
    (
        lambda m, x, p: torch.ops.thimble.cached_attention(
            *(heads(x),) * 3, m.k_cache, m.k_cache, p, 0.25
        ),
        "getitem",
        "its keys and values are in one buffer",
    ),
    (
        lambda m, x, p: torch.ops.thimble.cached_attention(
            *(heads(x),) * 3, m.k_cache * 2, m.v_cache * 2, p, 0.25
        ),
        "getitem",
        "its caches are not two buffers of one shape that it alone writes",
    ),
    (
        lambda m, x, p: m.rotate(heads(x), p, "long_cos", "odd_sin"),
        "mul",
        "of (1, s27, 2, 16) and (s27, 1, 16); it takes rows of float32",
    ),
    (
        lambda m, x, p: x * m.cos.flatten()[:32] + x,
        "mul",
        "of (1, s27, 32) and (32); it takes rows of float32, (1, seq_len, width), of one shape",
    ),
    (lambda m, x, p: x + 1, "add", "of (1, s27, 32) and (); it takes rows of float32"),
    (lambda m, x, p: 1 / x, "reciprocal", "the delegate has no reciprocal; it computes"),
    (lambda m, x, p: torch.tanh(x.double()), "tanh", "of (1, s27, 32); it takes rows of float32"),
    (
        lambda m, x, p: m.a(x[:, 0]),
        "select",
        "[0] of dimension 1 of (1, s27, 32); it takes the last of rows of float32",
    ),
    (lambda m, x, p: torch.erf(m.a(x)), "erf", "the delegate has no erf; it computes embeddings"),
    (
        lambda m, x, p: (m.norm(x), x.pow(2)),
        "pow",
        "the delegate has no pow; it computes embeddings, RMSNorm",
    ),
]


@pytest.mark.parametrize(("forward", "operator", "reason"), [*LEFT[:4], *checked_rows(LEFT[4:])])
def test_what_is_left_has_a_reason(forward: Forward, operator: str, reason: str) -> None:
    program = edge_of(forward)
    tidy(program)
    reasons = find_calls(program.graph, Values(Constants(program))).reasons
    by_operator = [
        said
        for node in program.graph.nodes
        if operator_name(node).removeprefix("aten::") == operator
        for said in [reasons.get(node.name, "")]
    ]
    assert any(reason in said for said in by_operator), by_operator or reasons
