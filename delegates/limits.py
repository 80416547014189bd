"""What a delegate takes and needs: the facts that are listed are the ones that are enforced."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.export import ExportedProgram

from delegates.errors import DelegateError
from delegates.passes.quantized import LINEAR, linear_arguments

FLOAT_BITS = 32  # of a weight that is not quantized, whatever the delegate stores it as


def nothing_missing() -> None:
    """For a delegate that lowers wherever this package is installed."""
    return None


def always() -> bool:
    """For a delegate that runs wherever this package is installed."""
    return True


def all_positions(window: int, context: int, seq_len: int) -> int:
    """For a delegate whose caches keep the whole context."""
    return context


def never() -> bool:
    """For a delegate whose runtime is on other systems than those that export."""
    return False


class StoredAs(Protocol):
    """How a weight is stored, by the arguments of `thimble::linear` (quant/weight_type.py)."""

    @property
    def bits(self) -> int: ...

    @property
    def group_size(self) -> int:
        """0 where all of a row share a scale."""

    @property
    def levels(self) -> int: ...


@dataclass(frozen=True)
class FileSizes:
    """What a delegate's files take.

    Attributes:
        weight_bytes: (rows, columns, type) to bytes of a matrix; None for XNNPACK's.
        table_bytes: the same of an embedding; None for that of ExecuTorch's own operators.
        float_bytes: of a number that is not quantized.
        shares_tied: the widths in which tied ends are stored once.
        alignment: bytes, to which each thing that is stored is brought.
        rotary_numbers: stored for each position and dimension of a head.
        layer_bytes: of a program beside its weights, at most, for each layer.
    """

    weight_bytes: Callable[[int, int, StoredAs], int] | None = None
    table_bytes: Callable[[int, int, StoredAs], int] | None = None
    float_bytes: int = 4
    shares_tied: tuple[int, ...] = ()
    alignment: int = 128
    rotary_numbers: int = 2
    layer_bytes: int = 1 << 15


@dataclass(frozen=True)
class Limits:
    """One delegate's.

    Attributes:
        name: the delegate's.
        runs_on: the hardware and systems that run its programs.
        weight_bits: widths of a weight that it takes; FLOAT_BITS where it takes floats.
        dynamic: whether one program takes calls of several lengths.
        sizes: what its files take.
        streams_weights: whether lowering takes weights one by one and gives each back.
        kept_positions: (window, context, seq_len) to positions that the cache of a sliding window
            keeps.
        missing: a sentence on what must be installed before it lowers here; None if nothing.
        checks: whether this machine can run what it lowers, to check the numbers.
    """

    name: str
    runs_on: str
    weight_bits: tuple[int, ...]
    dynamic: bool
    missing: Callable[[], str | None]
    checks: Callable[[], bool]
    sizes: FileSizes = FileSizes()
    streams_weights: bool = False
    kept_positions: Callable[[int, int, int], int] = all_positions

    def check_mix(self, layers: int) -> None:
        """Whether layers of a program may have 4 bits in some parts and 8 in others.

        Raises:
            DelegateError: they may not.
        """
        lacking = [bits for bits in (4, 8) if bits not in self.weight_bits]
        if lacking:
            raise DelegateError(
                f"{self.name} takes no weights of {' or '.join(map(str, lacking))} bits, and a "
                f"budget spreads 4 and 8 over all parts of model.layers.0 to {layers - 1}: leave "
                "out --bits and --max-size, or take another --delegate, such as cpu or xnnpack."
            )

    def check(self, bits: int, max_seq_len: int) -> None:
        """Asked before any work begins.

        Raises:
            DelegateError: it cannot lower here, or does not take such weights or lengths.
        """
        missing = self.missing()
        if missing is not None:
            raise DelegateError(missing)
        if bits not in self.weight_bits:
            schemes = {4: "rtn4", 8: "rtn8", FLOAT_BITS: "none"}
            raise DelegateError(
                f"{self.name} takes weights of {' or '.join(map(str, self.weight_bits))} bits, and "
                f"these have {bits}: export with --quant {schemes[self.weight_bits[0]]}."
            )
        if max_seq_len > 1 and not self.dynamic:
            raise DelegateError(
                f"A {self.name} program has fixed shapes, and this one takes calls of 1 to "
                f"{max_seq_len} tokens: export with --max-seq-len 1."
            )

    def check_program(self, program: ExportedProgram) -> None:
        """The same of a captured program.

        Raises:
            DelegateError: as `check`.
        """
        tokens = next(node for node in program.graph.nodes if node.name == "tokens")
        seq_len = tokens.meta["val"].shape[1]
        if isinstance(seq_len, torch.SymInt):
            seq_len = int(program.range_constraints[seq_len.node.expr].upper)
        for bits in sorted(_weight_bits(program)):
            self.check(bits, seq_len)


def _weight_bits(program: ExportedProgram) -> set[int]:
    """The widths of the layers' weights; the head, which comes last, may have another."""
    linears = [
        linear_arguments(node).bits if str(node.target) == LINEAR else FLOAT_BITS
        for node in program.graph.nodes
        if str(node.target) == LINEAR or node.target is torch.ops.aten.linear.default
    ]
    return set(linears[:-1])
