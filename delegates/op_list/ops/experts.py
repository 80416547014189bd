"""A mixture of experts: each row goes through those that its scores choose, and their outputs are
added."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch.fx import Node

from delegates.op_list.graph import args_of, shape_of
from delegates.op_list.layout import Format
from delegates.op_list.matrix import Matrix, MatrixSource
from delegates.op_list.ops.elementwise import Function
from delegates.op_list.ops.linear import rotation_refused
from delegates.op_list.ops.op import Field, Matchers, Op, Places, Values
from delegates.op_list.ops.storage import quantized_source
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows, is_rows, said_shape

_ACTIVATIONS = {
    "silu": Function.SILU,
    "gelu": Function.GELU,
    "gelu_tanh": Function.GELU_TANH,
    "relu": Function.RELU,
    "quick_gelu": Function.QUICK_GELU,
}


@dataclass(eq=False, kw_only=True)
class Experts(Op):
    """
    Attributes:
        scores: of the experts, from which each row chooses.
        up, down: the matrices of all experts; of up, gate and up alternate.
        up_biases, down_biases: of each source of these.
        chosen: how many experts a row goes to.
        normalized: whether the weights are the softmax over the chosen scores alone.
        activation: of the gate.
        limit: of gate and up, to which 1 is then added; 0: none.
        sigmoid: whether scores are the sigmoid of those that are given, and shares are those.
        choice_bias: is added to the scores for the choice alone; None: nothing is.
        share_scale: a factor on the shares of sigmoids.
        up_rotated, down_rotated: size of the blocks in which the inputs are rotated; 0: they are
            not.
    """

    READS: ClassVar = ("input", "scores")
    MATRICES: ClassVar = {"up": ".experts.gate_up_proj", "down": ".experts.down_proj"}

    input: Rows
    scores: Rows
    up: Matrix
    down: Matrix
    up_biases: tuple[Node | None, ...]
    down_biases: tuple[Node | None, ...]
    chosen: int
    normalized: bool
    activation: Function
    limit: float
    up_rotated: int
    down_rotated: int
    sigmoid: bool
    choice_bias: Node | None
    share_scale: float

    @property
    def version(self) -> int:
        return 7 if self.sigmoid else self.VERSION

    def fields(self, places: Places) -> list[Field]:
        return [
            places.slot(self.input),
            places.slot(self.scores),
            places.slot(self.output),
            places.weight(self.up),
            places.weight(self.down),
            places.biases(self.up, self.up_biases),
            places.biases(self.down, self.down_biases),
            self.chosen,
            self.normalized,
            self.activation,
            self.up_rotated,
            self.down_rotated,
            self.limit,
            self.sigmoid,
            None if self.choice_bias is None else places.vector(self.choice_bias),
            self.share_scale if self.sigmoid else 0.0,
        ]


def match_experts(node: Node, values: Values) -> Experts | Refused:
    x, scores, weights, scales, biases, up_type, down_type, *rest = args_of(node)
    types = up_type, down_type
    chosen, normalized, name, *more = rest
    defaults: list[Any] = [None, False, None, 1.0]
    limit, sigmoid, choice_bias, share_scale = more + defaults[len(more) :]
    given = [*weights, *scales, *biases, *([] if choice_bias is None else [choice_bias])]
    if any(values.constants.name(tensor) is None for tensor in given):
        return Refused("its weights are computed, not constants")
    if not is_rows(x) or not is_rows(scores) or len(shape_of(x)) == 4:
        shapes = f"of {said_shape(x)} and {said_shape(scores)}"
        return Refused(f"{shapes}; it takes rows of float32, (1, seq_len, width)")
    if name not in _ACTIVATIONS:
        return Refused(f"it gates by {name}; it takes {', '.join(_ACTIVATIONS)}")
    hidden, inner = shape_of(x)[-1], shape_of(weights[0])[0]
    sources: list[MatrixSource] = []
    for at, weight in enumerate(weights):
        is_down = at % 3 == 2
        columns, type = inner if is_down else hidden, types[is_down]
        source = _source(weight, scales[at] if scales else None, columns, type)
        if isinstance(source, Refused):
            return source
        sources.append(source)
    count = len(weights) // 3
    ups = [at for at in range(len(weights)) if at % 3 < 2]
    downs = range(2, len(weights), 3)
    of_experts = biases or [None] * len(weights)
    return Experts(
        output=values.rows(node),
        nodes=[node],
        input=values.rows(x),
        scores=values.rows(scores),
        up=Matrix(tuple(sources[at] for at in ups), interleaved=True, experts=count),
        down=Matrix(tuple(sources[at] for at in downs), experts=count),
        up_biases=tuple(of_experts[at] for at in ups),
        down_biases=tuple(of_experts[at] for at in downs),
        chosen=chosen,
        normalized=normalized,
        activation=_ACTIVATIONS[name],
        limit=limit or 0.0,
        up_rotated=_rotated(types[0]),
        down_rotated=_rotated(types[1]),
        sigmoid=sigmoid,
        choice_bias=choice_bias,
        share_scale=share_scale,
    )


def _source(
    weight: Node, scales: Node | None, columns: int, type: Sequence[int]
) -> MatrixSource | Refused:
    """Returns the tensors of a linear's matrix; `type` as thimble::experts says."""
    if scales is None:
        return MatrixSource(weight, None, Format.FLOAT32, shape_of(weight)[0], columns, 0)
    *storage, rotated = type
    turned = rotation_refused(columns, rotated)
    return turned or quantized_source(weight, scales, columns, *storage)


def _rotated(type: Sequence[int]) -> int:
    return type[3] if type else 0


MATCHERS: Matchers = {"thimble::experts": (match_experts,)}
