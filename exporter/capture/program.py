"""Captures the program from which every delegate starts."""

import operator
import re

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram, export
from torch.utils._sympy.value_ranges import ValueRanges

import exporter.capture.attention
import exporter.models.low_rank
import quant.modules
from delegates.methods import FORWARD
from delegates.passes.quantized import drop_unread_buffers
from exporter.capture.refusals import REFUSALS, refused
from exporter.models.decoder import CausalLM
from exporter.models.text_decoder import (
    TEXT_DECODER,
    TOKEN_EMBEDDING,
    TextDecoder,
    TokenEmbedding,
)
from exporter.plan.lengths import check_lengths

_CALLED = exporter.capture.attention, exporter.models.low_rank, quant.modules
_MODULES = "|".join(re.escape(str(module.__file__)) for module in _CALLED)
_INSIDE = re.compile(rf'\n? *File "(?:{_MODULES})", line ')
EXAMPLE_SEQ_LEN = 3  # any length above 1: torch.export specializes a Dim whose example is 0 or 1


def capture(model: CausalLM, max_context_len: int, max_seq_len: int) -> ExportedProgram:
    """Captures `forward(tokens (1, seq_len), input_pos (1,))` with seq_len in 1 .. max_seq_len.

    Args:
        model: quantized or not; it gets a KV cache of max_context_len positions.
        max_context_len: positions of the cache.
        max_seq_len: the most tokens in one call.

    Raises:
        ExportError: the lengths do not fit each other or the model, or a line of the model cannot
            be captured.
    """
    check_lengths(model.config, max_context_len, max_seq_len)
    model.setup_cache(max_context_len)
    model.eval().requires_grad_(False)
    tokens, start = _example(model, max_seq_len)
    return _captured(model, (tokens, start), max_context_len, max_seq_len)


def capture_parts(
    model: CausalLM, max_context_len: int, max_seq_len: int, row_size: int
) -> dict[str, ExportedProgram]:
    """Captures `forward`, and beside it the two parts that stock ExecuTorch's MultimodalRunner
    calls: `token_embedding(tokens (1, seq_len))` and `text_decoder(hidden (1, seq_len, row_size),
    input_pos (1,))`.

    Args:
        row_size: numbers of a row, as TextDecoder reads it.

    Other args, raises:
        As capture().
    """
    lengths = max_context_len, max_seq_len
    programs = {FORWARD: capture(model, *lengths)}
    tokens, start = _example(model, max_seq_len)
    hidden = torch.zeros(*tokens.shape, row_size)
    programs[TOKEN_EMBEDDING] = _captured(TokenEmbedding(model), (tokens,), *lengths)
    programs[TEXT_DECODER] = _captured(TextDecoder(model, row_size), (hidden, start), *lengths)
    return programs


def _example(model: CausalLM, max_seq_len: int) -> tuple[Tensor, Tensor]:
    """Returns tokens (1, seq_len) and the position of the first."""
    seq_len = min(EXAMPLE_SEQ_LEN, max_seq_len)
    return torch.zeros(1, seq_len, dtype=torch.long), torch.zeros(1, dtype=torch.long)


def _captured(
    model: CausalLM, inputs: tuple[Tensor, ...], max_context_len: int, max_seq_len: int
) -> ExportedProgram:
    """Captures a model whose first input has a row for each token, and the second the position."""
    rows = None if max_seq_len == 1 else {1: Dim("seq_len", min=1, max=max_seq_len)}
    dims = (rows, None)[: len(inputs)]
    model.eval()
    try:
        program = export(model, inputs, dynamic_shapes=dims)
    except REFUSALS as error:
        raise refused(model, inputs, dims, error) from error
    if max_seq_len > 1 and len(inputs) > 1:
        _admit_last_position(program, max_context_len)
    end_traces_at_the_model(program)
    drop_unread_buffers(program)
    return program


def end_traces_at_the_model(program: ExportedProgram) -> None:
    """Removes the inner part of stack traces in attention and in quantized and adapted linears: the
    line that calls a module is the node's line."""
    for node in program.graph.nodes:
        trace = node.meta.get("stack_trace")
        if trace:
            node.meta["stack_trace"] = _INSIDE.split(trace)[0]


def _admit_last_position(program: ExportedProgram, max_context_len: int) -> None:
    """Corrects the only bound that torch.export gets wrong.

    It assumes that every dynamic size is at least 2, and so concludes from
    start_pos + seq_len <= max_context_len that start_pos never reaches the last position.
    """
    wrong, right = max_context_len - 2, max_context_len - 1
    (start_pos,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.item.default)
    for bound in list(start_pos.users):
        if bound.target is operator.le and bound.args == (start_pos, wrong):
            for assertion in list(bound.users):
                program.graph.erase_node(assertion)  # the bound on the sum is enough
            program.graph.erase_node(bound)
    program.graph_module.recompile()
    symbol = start_pos.meta["val"].node.expr
    program.range_constraints[symbol] = ValueRanges(0, right)
