"""Reads the op list of delegates/op_list/program.fbs: what each op reads, writes and keeps."""

from collections.abc import Mapping
from dataclasses import dataclass

from devtools.report.flatbuffer import Damaged, Table

_VERSIONS = range(6, 17)
_IDENTIFIER = b"THCP"
_ROWS = 2  # of the enum Role
_CACHE_ITEM_BYTES = {0: 2, 1: 4, 2: 1}  # float16, float32, int8
_CACHE_SCALE_BYTES = {0: 0, 1: 0, 2: 4}  # of a head's
_CACHE_NAMES = {0: "float16", 1: "float32", 2: "int8"}
_FLOAT_BYTES = 4


@dataclass(frozen=True)
class _Kind:
    """Where the table of a kind of operator has the numbers that are read here.

    Attributes:
        reads, writes: slots.
        weights: the numbers of its weights.
        cache: the number of its cache; None without one, as for the other places.
        states: the numbers of its states.
        accumulates: whether what it writes is read too.
        last_row: whether it computes the last row alone.
    """

    name: str
    reads: tuple[int, ...]
    writes: int
    weights: tuple[int, ...] = ()
    cache: int | None = None
    states: tuple[int, ...] = ()
    accumulates: int | None = None
    last_row: int | None = None


# By their number in the union Kind.
_KINDS = {
    1: _Kind("embedding", (), 1, weights=(0,)),
    2: _Kind("norm", (0,), 1),
    3: _Kind("linear", (0,), 1, weights=(2,), accumulates=8, last_row=9),
    4: _Kind("attention", (0, 2, 4), 6, cache=8),
    5: _Kind("rotate", (0,), 1),
    6: _Kind("elementwise", (1, 2), 3),
    7: _Kind("glu", (0, 1), 2),
    8: _Kind("select_last", (0,), 1),
    9: _Kind("convolution", (0,), 1, states=(2,)),
    10: _Kind("experts", (0, 1), 2, weights=(3, 4)),
    11: _Kind("delta", (0, 1, 2), 3, states=(4, 5)),
    12: _Kind("shared_attention", (0,), 1),
    13: _Kind("columns", (0,), 1),
    14: _Kind("layer_norm", (0,), 1),
    15: _Kind("positions", (0,), 2, weights=(1,)),
    16: _Kind("segment_attention", (0, 2, 4), 6),
    17: _Kind("pool", (0,), 1),
    18: _Kind("xielu", (0,), 1),
    19: _Kind("patches", (0,), 1),
    20: _Kind("concatenate", (0, 1), 2),
    21: _Kind("narrow", (0,), 1),
    22: _Kind("constant", (), 1, weights=(0,)),
    23: _Kind("affine", (0,), 1),
    24: _Kind("gather", (0,), 1),
    25: _Kind("pool_rows", (0,), 1),
    26: _Kind("depthwise", (0,), 1),
    27: _Kind("sample_norm", (0,), 1),
    28: _Kind("recurrent", (0,), 1, weights=(2,)),
    29: _Kind("relative_scores", (0,), 1, weights=(2,)),
}
_FUNCTIONS = (  # of elementwise operators, by their numbers; the first few have two inputs
    *("add", "multiply"),
    *("scale", "soft_cap", "silu", "gelu", "gelu_tanh", "sigmoid", "tanh", "relu"),
    *("quick_gelu", "relu6", "hard_sigmoid", "hard_swish", "least", "most", "leaky_relu"),
)
_BINARY = 2


@dataclass(frozen=True)
class Weight:
    """A packed matrix: the key of its data in the file, and how many bytes that has."""

    key: str
    rows: int
    columns: int
    size: int


@dataclass(frozen=True)
class Operator:
    """
    Attributes:
        name: module path.
        kind: such as linear; of an elementwise operator the function, such as add.
        debug_ids: under which its time is recorded, that of the main part first.
        reads, writes: numbers of slots.
        weights: numbers of its weights.
        cache_bytes: of its keys and values, at the full context and of the file's type, or of its
            states.
    """

    name: str
    kind: str
    debug_ids: tuple[int, ...]
    reads: tuple[int, ...]
    writes: int
    weights: tuple[int, ...]
    cache_bytes: int


@dataclass(frozen=True)
class OpList:
    """
    Attributes:
        slots: bytes of each slot, of one token; of a program by sample, of one sample.
        one_row: slots that hold one row, however many tokens run together.
        given: slots that the caller fills.
        cache_type: the type of keys and values, such as float16, unless a session sets another.
    """

    slots: tuple[int, ...]
    one_row: frozenset[int]
    given: tuple[int, ...]
    weights: tuple[Weight, ...]
    operators: tuple[Operator, ...]
    cache_type: str

    @property
    def weight_bytes(self) -> int:
        """Bytes of all packed weights, which are used in place in the file."""
        return sum({weight.key: weight.size for weight in self.weights}.values())

    @property
    def cache_bytes(self) -> int:
        return sum(operator.cache_bytes for operator in self.operators)

    def live(self) -> list[frozenset[int]]:
        """For each operator, the slots whose rows are read then or later, or written then."""
        live: list[frozenset[int]] = []
        needed: frozenset[int] = frozenset()
        for operator in reversed(self.operators):
            here = needed | {operator.writes, *operator.reads}
            live.append(here)
            needed = here - {operator.writes} | set(operator.reads)
        live.reverse()
        return live


def read_op_list(blob: bytes, sizes: Mapping[str, int]) -> OpList | None:
    """
    Args:
        sizes: bytes of the file's named data, by key.

    Returns:
        None if the list's version is not supported.

    Raises:
        Damaged: the list is incomplete or damaged.
    """
    root = Table.root(blob)
    if blob[4:8] != _IDENTIFIER:
        raise Damaged
    if root.number(0) not in _VERSIONS:
        return None
    weights = [
        Weight(key := item.text(0), item.number(1), item.number(2), sizes.get(key, 0))
        for item in root.tables(2)
    ]
    cache_type = root.number(5, "<B")
    caches = [
        2
        * item.number(1)
        * (item.number(2) * _CACHE_ITEM_BYTES[cache_type] + _CACHE_SCALE_BYTES[cache_type])
        * (item.number(4) or item.number(3))
        for item in root.tables(4)
    ]
    states = [item.number(1) * item.number(2) * _FLOAT_BYTES for item in root.tables(10)]
    one_row: set[int] = set()
    operators = [_operator(item, caches, states, one_row) for item in root.tables(6)]
    heights = root.numbers(12) or (1,) * len(root.numbers(1))
    return OpList(
        slots=tuple(
            width * height * _FLOAT_BYTES
            for width, height in zip(root.numbers(1), heights, strict=True)
        ),
        one_row=frozenset(one_row),
        given=tuple(item.number(1) for item in root.tables(7) if item.number(0, "<B") == _ROWS),
        weights=tuple(weights),
        operators=tuple(operators),
        cache_type=_CACHE_NAMES[cache_type],
    )


def _operator(op: Table, caches: list[int], states: list[int], one_row: set[int]) -> Operator:
    kind, fields = _KINDS.get(op.number(1, "<B")), op.table(2)
    if kind is None or fields is None:
        raise Damaged
    name, places = kind.name, kind.reads
    if kind.name == "elementwise":
        function = fields.number(0, "<B")
        if function >= len(_FUNCTIONS):
            raise Damaged
        name = _FUNCTIONS[function]
        places = places if function < _BINARY else places[:1]
    reads, writes = [fields.number(place) for place in places], fields.number(kind.writes)
    if _flag(fields, kind.accumulates):
        reads.append(writes)
    kept = [] if kind.cache is None else [caches[fields.number(kind.cache)]]
    kept += [states[fields.number(place)] for place in kind.states]
    last_row = kind.name == "select_last" or _flag(fields, kind.last_row)
    if last_row or any(slot in one_row for slot in reads):
        one_row.add(writes)
    return Operator(
        op.text(0),
        name,
        tuple(dict.fromkeys((op.number(3), op.number(4)))),
        tuple(dict.fromkeys(reads)),
        writes,
        tuple(fields.number(place) for place in kind.weights),
        sum(kept),
    )


def _flag(fields: Table, place: int | None) -> bool:
    return place is not None and bool(fields.number(place, "<B"))
