"""What a delegate supports and requires; the same facts are listed and enforced."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.export import ExportedProgram

from delegates.errors import DelegateError
from delegates.passes.quantized import (
    EXPERTS,
    LINEAR,
    embedding_arguments,
    embeddings_of,
    linear_arguments,
    linears_of,
)
from delegates.source_lines import source_line

SHORT_CONVOLUTION = "thimble.short_convolution.default"
DELTA_RULE = "thimble.gated_delta_rule.default"
SHARED_ATTENTION = "thimble.shared_attention.default"
FLOAT_BITS = 32  # of a weight that is not quantized, whatever the delegate stores it as


def nothing_missing() -> None:
    """For a delegate that can lower on every machine with this package."""
    return None


def always() -> bool:
    """For a delegate that runs on every machine with this package."""
    return True


def all_positions(window: int, context: int, seq_len: int) -> int:
    """For a delegate whose caches keep the whole context."""
    return context


def float32_bytes(bits: int, fit: bool) -> int:
    """For a delegate that keeps keys and values in float32, whatever the weights' bits."""
    return 4


def float16_bytes(bits: int, fit: bool) -> int:
    """For a delegate that keeps keys and values in float16, whatever the weights' bits."""
    return 2


def bytes_as_weights(bits: int, fit: bool) -> int:
    """For a delegate that keeps them in float32 beside floats, in int8 beside weights of fewer
    bits, if the keys fit, else in float16."""
    if bits == FLOAT_BITS:
        return 4
    return 1 if bits < 8 and fit else 2


def bytes_without_int8(bits: int, fit: bool) -> int:
    """The same for a delegate that does not multiply int8 keys and values."""
    return max(2, bytes_as_weights(bits, fit))


def never() -> bool:
    """For a delegate whose runtime is not available on exporting machines."""
    return False


class StoredAs(Protocol):
    """How a weight is stored, by the arguments of `thimble::linear` (quant/weight_type.py)."""

    @property
    def bits(self) -> int: ...

    @property
    def group_size(self) -> int:
        """The group size; 0 if a row has one scale."""

    @property
    def levels(self) -> int: ...


@dataclass(frozen=True)
class FileSizes:
    """The sizes of what a delegate's files store.

    Attributes:
        weight_bytes: (rows, columns, type) to bytes of a matrix; None for XNNPACK's.
        table_bytes: the same for an embedding; None for that of ExecuTorch's own operators.
        float_bytes: bytes of a number that is not quantized.
        shares_tied: the widths in which tied ends are stored once.
        alignment: bytes, to which each stored part is aligned.
        rotary_numbers: stored for each position and dimension of a head.
        layer_bytes: the most bytes of a program besides its weights, for each layer.
        graph_bytes: the most bytes of a program without layers.
    """

    weight_bytes: Callable[[int, int, StoredAs], int] | None = None
    table_bytes: Callable[[int, int, StoredAs], int] | None = None
    float_bytes: int = 4
    shares_tied: tuple[int, ...] = ()
    alignment: int = 128
    rotary_numbers: int = 2
    layer_bytes: int = 1 << 15
    graph_bytes: int = 1 << 15


@dataclass(frozen=True)
class Limits:
    """The limits of a delegate.

    Attributes:
        name: the delegate's.
        runs_on: the hardware and systems that run its programs.
        weight_bits: supported widths of weights; FLOAT_BITS for floats.
        dynamic: whether one program supports calls of several lengths.
        sizes: the sizes of what its files store.
        adapters: whether its programs keep adapters apart, of which a call uses one or none.
        streams_weights: whether lowering reads weights one by one and releases each.
        kept_positions: (window, context, seq_len) to the positions that the cache of a sliding
            window keeps.
        cached_bytes: (the fewest bits of a weight, whether keys fit int8) to bytes of a number in a
            cache of keys and values (exporter/cache_type.py).
        rotates: whether linears may rotate their inputs at run time (quant/rotation/inputs.py).
        missing: a sentence on what must be installed before it can lower here; None if nothing is
            missing.
        checks: whether this machine can run its programs, to check the results.
        float16_groups: whether it supports weights of 4 and 8 bits with one float16 scale a group.
        int8_groups: whether it should be given int8 in such groups; otherwise with a scale a row.
        windows: whether it supports attention over a sliding window.
        caps_and_sinks: whether it supports attention with a soft cap or with sinks.
        convolutions: whether it supports short convolutions, which keep a state.
        experts: whether it supports mixtures of experts.
        delta_rules: whether it supports the gated delta rule, which keeps states too.
        shared_caches: whether it supports attention to the keys and values of another layer.
        least_context: the fewest positions of a cache that it supports.
        hidden_multiple: what the hidden size of a quantized model must be a multiple of.
    """

    name: str
    runs_on: str
    weight_bits: tuple[int, ...]
    dynamic: bool
    missing: Callable[[], str | None]
    checks: Callable[[], bool]
    sizes: FileSizes = FileSizes()
    adapters: bool = False
    streams_weights: bool = False
    kept_positions: Callable[[int, int, int], int] = all_positions
    cached_bytes: Callable[[int, bool], int] = float32_bytes
    float16_groups: bool = False
    int8_groups: bool = False
    rotates: bool = False
    windows: bool = True
    caps_and_sinks: bool = True
    convolutions: bool = False
    experts: bool = False
    delta_rules: bool = False
    shared_caches: bool = False
    least_context: int = 1
    hidden_multiple: int = 1

    def check_kept(self) -> None:
        """Checks that weights may be stored as `--quant keep` finds them.

        Raises:
            DelegateError: they may not.
        """
        if not self.float16_groups:
            raise DelegateError(
                f"{self.name} does not support integers with a float16 scale for each group, which "
                "--quant keep takes from the checkpoint: use another --quant, such as rtn8, or "
                "another --delegate, such as cpu."
            )

    def check_mix(self, layers: int) -> None:
        """Checks that layers of a program may have 4 bits in some parts and 8 in others.

        Raises:
            DelegateError: they may not.
        """
        lacking = [bits for bits in (4, 8) if bits not in self.weight_bits]
        if lacking:
            raise DelegateError(
                f"{self.name} does not support weights of {' or '.join(map(str, lacking))} bits, "
                f"but a budget uses 4 and 8 in all parts of model.layers.0 to {layers - 1}: leave "
                "out --bits and --max-size, or use another --delegate, such as cpu or xnnpack."
            )

    def check_head(self, bits: int) -> None:
        """Checks that embedding and head may have so many bits.

        Raises:
            DelegateError: they may not.
        """
        if bits not in (4, 8, *self.weight_bits):  # those two are stored everywhere
            raise DelegateError(
                f"{self.name} does not support an embedding and lm_head of {bits} bits: export "
                "with --head-bits 8 or 4, or with another --delegate, such as cpu."
            )

    def check(self, bits: int, max_seq_len: int) -> None:
        """Checks the request before any work begins.

        Raises:
            DelegateError: it cannot lower here, or does not support such weights or lengths.
        """
        missing = self.missing()
        if missing is not None:
            raise DelegateError(missing)
        self._check_bits(bits)
        if max_seq_len > 1 and not self.dynamic:
            raise DelegateError(
                f"A {self.name} program has fixed shapes, but this one has calls of 1 to "
                f"{max_seq_len} tokens: export with --max-seq-len 1."
            )

    def check_context(self, max_context_len: int) -> None:
        """Checks the length of the context.

        Raises:
            DelegateError: it is too short.
        """
        if max_context_len < self.least_context:
            raise DelegateError(
                f"{self.name} does not support a context of {max_context_len}: export with a "
                f"--max-context-len of at least {self.least_context}."
            )

    def check_hidden(self, size: int) -> None:
        """Checks the hidden size of a quantized model.

        Raises:
            DelegateError: it does not fit the delegate's rows of integers.
        """
        if size % self.hidden_multiple:
            raise DelegateError(
                f"{self.name} does not support a quantized model with a hidden size of {size}, "
                f"which is no multiple of {self.hidden_multiple}: export with --quant none, or "
                "with --delegate cpu or xnnpack."
            )

    def check_attention(self, window: int | None, soft_cap: float | None, sinks: bool) -> None:
        """Checks the attention of a layer.

        Args:
            window: None if it is at least as long as the context.
            soft_cap: on the scores; None if there is none.
            sinks: whether heads have any.

        Raises:
            DelegateError: it is not supported.
        """
        if window is not None and not self.windows:
            raise DelegateError(
                f"{self.name} does not support attention over a sliding window, which is {window} "
                "positions here: export with --delegate cpu or xnnpack, or with a "
                "--max-context-len that the window covers."
            )
        if not self.caps_and_sinks and (soft_cap is not None or sinks):
            what = "sinks" if soft_cap is None else f"the soft cap {soft_cap}"
            raise DelegateError(
                f"{self.name} does not support attention with {what}: export with --delegate cpu "
                "or coreml."
            )

    def check_convolution(self, where: str = "") -> None:
        """Checks that layers may be short convolutions.

        Args:
            where: added to their name, such as their line.

        Raises:
            DelegateError: they may not.
        """
        if not self.convolutions:
            raise DelegateError(
                f"{self.name} does not support short convolutions{where}: export with --delegate "
                "cpu."
            )

    def check_delta_rule(self, where: str = "") -> None:
        """Checks that layers may have the gated delta rule.

        Args:
            where: as in check_convolution.

        Raises:
            DelegateError: they may not.
        """
        if not self.delta_rules:
            raise DelegateError(
                f"{self.name} does not support the gated delta rule{where}: export with --delegate "
                "cpu."
            )

    def check_shared_caches(self, where: str = "") -> None:
        """Checks that layers may attend to the keys and values of another.

        Args:
            where: as in check_convolution.

        Raises:
            DelegateError: they may not.
        """
        if not self.shared_caches:
            raise DelegateError(
                f"{self.name} does not support attention to the keys and values of another "
                f"layer{where}: export with --delegate cpu or xnnpack."
            )

    def check_experts(self) -> None:
        """Checks that layers may have a mixture of experts.

        Raises:
            DelegateError: they may not.
        """
        if not self.experts:
            raise DelegateError(
                f"{self.name} does not support mixtures of experts: export with --delegate cpu."
            )

    def check_adapters(self) -> None:
        """Checks that a program may have adapters.

        Raises:
            DelegateError: it may not.
        """
        if not self.adapters:
            raise DelegateError(
                f"{self.name} does not keep adapters apart: merge one with --adapter DIR, or use "
                "--delegate cpu."
            )

    def check_program(self, program: ExportedProgram) -> None:
        """Checks a captured program in the same way.

        Raises:
            DelegateError: as `check`.
        """
        tokens = next(node for node in program.graph.nodes if node.name == "tokens")
        seq_len = tokens.meta["val"].shape[1]
        if isinstance(seq_len, torch.SymInt):
            seq_len = int(program.range_constraints[seq_len.node.expr].upper)
        for bits in sorted(_weight_bits(program)):
            self.check(bits, seq_len)
        self.check_widths(program)
        self.check_operators(program)
        if any(str(node.target) == EXPERTS for node in program.graph.nodes):
            self.check_experts()
        if any(type.bits == 8 and type.group_size > 0 for type in _weight_types(program)):
            self.check_kept()

    def check_widths(self, program: ExportedProgram) -> None:
        """Checks that no weight has 5 or 6 bits, in the embedding and the head too, if it does not
        support them.

        Raises:
            DelegateError: one has.
        """
        for bits in sorted({type.bits for type in _weight_types(program)} - {4, 8}):
            self._check_bits(bits)

    def check_operators(self, program: ExportedProgram) -> None:
        """Checks that it supports each of our operators in a captured program.

        Raises:
            DelegateError: it does not support one; the sentence names its line.
        """
        for node in program.graph.nodes:
            if str(node.target) == SHORT_CONVOLUTION:
                self.check_convolution(f" ({source_line(node)})")
            if str(node.target) == DELTA_RULE:
                self.check_delta_rule(f" ({source_line(node)})")
            if str(node.target) == SHARED_ATTENTION:
                self.check_shared_caches(f" ({source_line(node)})")

    def _check_bits(self, bits: int) -> None:
        if bits not in self.weight_bits:
            schemes = {4: "rtn4", 8: "rtn8", FLOAT_BITS: "none"}
            raise DelegateError(
                f"{self.name} supports weights of {' or '.join(map(str, self.weight_bits))} bits, "
                f"but these have {bits}: export with --quant {schemes[self.weight_bits[0]]}."
            )


def _weight_types(program: ExportedProgram) -> list[StoredAs]:
    types: list[StoredAs] = [linear_arguments(node) for node in linears_of(program.graph)]
    return types + [embedding_arguments(node) for node in embeddings_of(program.graph)]


def _weight_bits(program: ExportedProgram) -> set[int]:
    """Returns the widths of the layers' weights; the head, which comes last, may have another."""
    linears = [
        linear_arguments(node).bits if str(node.target) == LINEAR else FLOAT_BITS
        for node in program.graph.nodes
        if str(node.target) == LINEAR or node.target is torch.ops.aten.linear.default
    ]
    return set(linears[:-1])
