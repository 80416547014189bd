"""How much memory a quantization will take at its peak, estimated from shapes alone.

What is counted: the model's integers, one decoder layer in float32 and its pages of the checkpoint,
hidden states, the inputs of its linears, and the matrices of the widest linear (a Hessian, its
factor, what Cholesky needs). `quant/machine/spill.py` takes hidden states, inputs, waiting sums and
finished layers out of memory.
"""

import math
import os
import resource
import sys
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from quant.layers.blocks import blocks_of, mixtures_of
from quant.layers.embedding_and_head import HEAD_ROWS, is_tied
from quant.layers.head_inputs import MOST_TOKENS, WINDOWS_TOGETHER
from quant.layers.outside_layers import PIECE, outer_parts
from quant.layers.stream import STREAM_TOKENS
from quant.layers.walk import layers_of
from quant.machine.device import HOST, rows_together
from quant.machine.ranks import SHARDS
from quant.machine.threads import MOST_THREADS
from quant.protocols import CausalLM
from quant.rounding.int8_gram import TOGETHER
from quant.scheme import Scheme

_FLOAT = 4
_STORED = 2  # bytes of a number in a checkpoint; float32 ones are read slower, not kept longer
_SLACK = 200_000_000  # pieces that are freed but not given back, libraries' own
LOOPS = 210_000_000  # Numba, and what it compiles
_SOLVE_COPIES = 12  # of those rows: targets, values, gradients, candidates
_BATCH_COPIES = 4  # of a batch's widest activations
_INT8_COPIES = 4  # of the inputs whose products are summed at once: as they come, and two digits
_PIECE_COPIES = 4  # bytes of a number of a piece: stored, rounded, scales
_MATRICES = 3  # Hessian, factor, and one more to make it or to descend with


@dataclass(frozen=True)
class Peak:
    """Bytes beyond what the process already has.

    Attributes:
        quantizing: at the worst moment of the pass over the layers.
        held: what is left of it: the model's integers and scales, where they are in memory.
        disk: what lies on disk instead.
    """

    quantizing: int
    held: int
    disk: int


def estimate_peak(
    model: CausalLM,
    scheme: Scheme,
    calibration: Tensor | None,
    spilled: bool,
    ranks: int = 1,
) -> Peak:
    """The peak of `quantize` by the CPU; where a GPU computes, the matrices are in its own memory.

    Args:
        model: on the meta device.
        calibration: int64 (windows, seq_len), or None.
        spilled: whether what can go to disk does.
        ranks: processes that share the text; the figures are of one.
    """
    layers = layers_of(model)
    linears = [m for layer in layers for m in layer.modules() if isinstance(m, nn.Linear)]
    sizes = [sum(parameter.numel() for parameter in layer.parameters()) for layer in layers]
    layer_weights = max(sizes)
    hidden = model.lm_head.in_features
    widest = max(linear.in_features for linear in linears)
    table = model.lm_head.in_features * model.lm_head.out_features
    bytes_a_weight = _FLOAT if scheme.name == "none" else 1 + (_FLOAT + 1) / scheme.group_size
    number = _FLOAT if scheme.name == "none" else 1
    ends = (1 if is_tied(model) else 2) * table * number
    others = [math.prod(part.shape) for part in outer_parts(model)]
    integers = round(bytes_a_weight * sum(sizes)) + ends + sum(others) * number

    layer = layer_weights * (_FLOAT + _STORED)
    storing = 3 * layer_weights // 2  # an entry of the cache, packed, and its bytes
    states = sums = solving = in_memory = 0
    if calibration is not None and scheme.choice.follows_calibration:
        tokens = calibration.numel() // ranks
        follows = scheme.choice.follows_float
        behind = any(block.after is not None for layer in layers for block in blocks_of(layer))
        keeps_reference = follows and (behind or not scheme.choice.follows_residual)
        # Of a block's last linear, whose inputs are kept as integers, and the float stream's.
        last = widest * (1 if scheme.choice.int8_statistics else _FLOAT)
        inputs = _FLOAT * hidden + last + (_FLOAT * widest if keeps_reference else 0)
        if any(mixtures_of(layer) for layer in layers):
            # The rows of some experts, of both streams, and the float stream after the block.
            inputs = max(inputs, _FLOAT * hidden * (3 if follows else 1))
        states = tokens * (_FLOAT * hidden * (2 if follows else 1) + inputs)
        left = sum(block.leaves for layer in layers for block in blocks_of(layer))
        left += hidden if model.reads_text else 0
        in_memory = _FLOAT * tokens * left * (2 if follows else 1)
        square, outputs = widest * widest * _FLOAT, widest * hidden * _FLOAT
        waiting = 0 if spilled else (SHARDS // ranks).bit_length() - 1
        sums = max((1 + waiting) * square, 2 * square + (1 + waiting) * outputs)
        solving = _MATRICES * square + 2 * outputs
        solved_rows = rows_together(HOST) * MOST_THREADS
        solving += _SOLVE_COPIES * solved_rows * widest * _FLOAT
        sums += _BATCH_COPIES * min(tokens, STREAM_TOKENS) * widest * _FLOAT
        sums += _INT8_COPIES * min(tokens // SHARDS * widest, TOGETHER)
    rounding = table * (_STORED + 1) + ends
    if others and spilled:
        rounding = max(rounding, _PIECE_COPIES * PIECE)
    elif others:
        rounding = max(rounding, max(others) * (_STORED + 1)) + sum(others) * number
    if calibration is not None and scheme.calibrates_head:
        square, tokens = hidden * hidden * _FLOAT, min(calibration.numel(), MOST_TOKENS)
        batch = min(tokens, WINDOWS_TOGETHER * calibration.shape[1])
        following = _FLOAT * (tokens * hidden + _BATCH_COPIES * batch * widest)
        solving_head = _MATRICES * square + _SOLVE_COPIES * HEAD_ROWS * hidden * _FLOAT
        rounding = max(rounding + solving_head, layer + following)
    kept = 0 if spilled else integers
    loops = LOOPS if calibration is not None and scheme.choice.rounding == "gptq" else 0
    working = layer + max(storing, sums, solving) + in_memory + (0 if spilled else states)
    return Peak(
        quantizing=max(rounding, kept + working) + loops + _SLACK,
        held=kept,
        disk=(integers + states + 4 * widest * widest * _FLOAT) if spilled else 0,
    )


def resident() -> int:
    """Bytes of this process that are in memory now."""
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # no less than what is wanted
    return peak if sys.platform == "darwin" else peak * 1024
