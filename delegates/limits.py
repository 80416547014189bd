"""What a delegate supports and requires; the same facts are listed and enforced."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from delegates import delegate_names, get_limits
from delegates.errors import DelegateError
from delegates.features import PLAIN_ATTENTION, Feature, Need
from delegates.storage import FLOAT_BITS, FileSizes, all_positions, float32_bytes

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def nothing_missing() -> None:
    """For a delegate that can lower on every machine with this package."""
    return None


def always() -> bool:
    """For a delegate that runs on every machine with this package."""
    return True


def never() -> bool:
    """For a delegate whose runtime is not available on exporting machines."""
    return False


def always_fits(limits: "Limits") -> bool:
    """For checks of features alone."""
    return True


# The rules by which several delegates share a field: from their values, in order of preference.
# What a program may have is what one of them supports: each checks the captured program by its own
# limits, and the next gets what one refuses.


def preferred(values: Sequence[Any]) -> Any:
    """Of the form of program and caches: the first that takes anything determines it."""
    return values[0]


def only_alone(values: Sequence[bool]) -> bool:
    """The first of several leaves the weights in place, because others may need them."""
    return len(values) == 1 and values[0]


def any_features(values: Sequence[frozenset[Feature]]) -> frozenset[Feature]:
    """Adapters and rotary tables are kept apart only by a program of the preferred delegate's
    form."""
    by_form = {Feature.ADAPTERS, Feature.ROTARY_BY_LENGTH}
    return frozenset[Feature]().union(*values) - (by_form - values[0])


_USUAL = (4, 8, FLOAT_BITS)


def any_widths(values: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Those below 8 other than 4 only if all support them, because one that does not refuses the
    program."""
    widths = dict.fromkeys(bits for choice in values for bits in choice)
    return tuple(
        bits for bits in widths if bits in _USUAL or all(bits in choice for choice in values)
    )


def first_missing(values: Sequence[Callable[[], str | None]]) -> Callable[[], str | None]:
    """A file must not depend on the machine that writes it, so all must be installed."""
    return lambda: next((sentence for missing in values if (sentence := missing())), None)


def all_check(values: Sequence[Callable[[], bool]]) -> Callable[[], bool]:
    """A program may have calls of each."""
    return lambda: all(checks() for checks in values)


@dataclass(frozen=True)
class Limits:
    """The limits of a delegate, each with the rule by which several delegates share it.

    Attributes:
        name: the delegate's.
        runs_on: the hardware and systems that run its programs.
        weight_bits: supported widths of weights; FLOAT_BITS for floats.
        dynamic: whether one program supports calls of several lengths.
        missing: a sentence on what must be installed before it can lower here; None if nothing is
            missing.
        checks: whether this machine can run its programs, to check the results.
        supports: features that not every delegate has.
        sizes: the sizes of what its files store.
        streams_weights: whether lowering reads weights one by one and releases each.
        kept_positions: (window, context, seq_len) to the positions that the cache of a sliding
            window keeps.
        cached_bytes: (the fewest bits of a weight, whether keys fit int8) to bytes of a number in a
            cache of keys and values (exporter/plan/cache_type.py).
        int8_groups: whether it should be given int8 in groups; otherwise with a scale a row.
        rotates: whether linears may rotate their inputs at run time (quant/rotation/inputs.py).
        default_context: the most positions of a context that the user did not choose.
        hidden_multiple: what the hidden size of a quantized model must be a multiple of.
    """

    name: Annotated[str, ",".join]
    runs_on: Annotated[str, ", ".join]
    weight_bits: Annotated[tuple[int, ...], any_widths]
    dynamic: Annotated[bool, any]
    missing: Annotated[Callable[[], str | None], first_missing]
    checks: Annotated[Callable[[], bool], all_check]
    supports: Annotated[frozenset[Feature], any_features] = PLAIN_ATTENTION
    sizes: Annotated[FileSizes, preferred] = FileSizes()
    streams_weights: Annotated[bool, only_alone] = False
    kept_positions: Annotated[Callable[[int, int, int], int], preferred] = all_positions
    cached_bytes: Annotated[Callable[[int, bool], int], preferred] = float32_bytes
    int8_groups: Annotated[bool, all] = False
    rotates: Annotated[bool, all] = False
    default_context: Annotated[int, min] = 2048
    hidden_multiple: Annotated[int, min] = 1

    def check(self, needs: Iterable[Need], fits: "Callable[[Limits], bool]" = always_fits) -> None:
        """Checks the features that a model or a captured program needs, in their order.

        Args:
            fits: whether another delegate takes the rest of the model; those that do are advised.

        Raises:
            DelegateError: one is not supported.
        """
        needs = list(needs)
        lacking = [need for need in needs if need.feature not in self.supports]
        if not lacking:
            return
        features = {need.feature for need in needs}
        advice = [export_with(lambda limits: features <= limits.supports and fits(limits))]
        if len({need.feature for need in lacking}) == 1:  # else it does not help alone
            advice.append(lacking[0].feature.advice)
        text = ", or ".join(filter(None, advice)) or "no delegate takes this model"
        raise DelegateError(f"{lacking[0].refusal(self.name)}: {text}.")

    def check_installed(self) -> None:
        """Checks that it can lower here.

        Raises:
            DelegateError: something must be installed first.
        """
        missing = self.missing()
        if missing is not None:
            raise DelegateError(missing)

    def check_weights(self, bits: int, max_seq_len: int) -> None:
        """Checks the request before any work begins.

        Raises:
            DelegateError: it cannot lower here, or does not support such weights or lengths.
        """
        self.check_installed()
        self._check_bits(bits)
        if max_seq_len > 1 and not self.dynamic:
            raise DelegateError(
                f"A {self.name} program has fixed shapes, but this one has calls of 1 to "
                f"{max_seq_len} tokens: export with --max-seq-len 1."
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
                f"which a budget uses in model.layers.0 to {layers - 1}: leave out --bits and "
                f"--max-size, or {export_with(_mixes)}."
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

    def check_hidden(self, size: int) -> None:
        """Checks the hidden size of a quantized model.

        Raises:
            DelegateError: it does not fit the delegate's rows of integers.
        """
        if size % self.hidden_multiple:
            raise DelegateError(
                f"{self.name} does not support a quantized model with a hidden size of {size}, "
                f"which is no multiple of {self.hidden_multiple}: export with --quant none, or "
                f"{export_with(lambda limits: _quantizes(limits, size))}."
            )

    def check_program(self, program: "ExportedProgram") -> None:
        """Checks a captured program in the same way.

        Raises:
            DelegateError: as the others.
        """
        from delegates.needs import hidden_size, layer_bits, longest_call, needs_of_program

        for bits in sorted(layer_bits(program)):
            self.check_weights(bits, longest_call(program))
        self.check_widths(program)
        self.check(needs_of_program(program))
        size = hidden_size(program)
        if size is not None:
            self.check_hidden(size)

    def check_widths(self, program: "ExportedProgram") -> None:
        """Checks that no weight has 2, 3, 5 or 6 bits, in the embedding and the head too, if it
        does not support them.

        Raises:
            DelegateError: one has.
        """
        from delegates.needs import weight_types

        for bits in sorted({type.bits for type in weight_types(program)} - {4, 8}):
            self._check_bits(bits)

    def _check_bits(self, bits: int) -> None:
        if bits not in self.weight_bits:
            schemes = zip(_USUAL, ("rtn4", "rtn8", "none"), strict=True)
            scheme = next(name for width, name in schemes if width in self.weight_bits)
            raise DelegateError(
                f"{self.name} supports weights of {' or '.join(map(str, self.weight_bits))} bits, "
                f"but these have {bits}: export with --quant {scheme}."
            )


def combined_limits(limits: Sequence[Limits]) -> Limits:
    """Returns the limits of several delegates in order of preference, each field by its rule."""
    hints = get_type_hints(Limits, include_extras=True)
    return Limits(
        **{
            name: hint.__metadata__[0]([getattr(one, name) for one in limits])
            for name, hint in hints.items()
        }
    )


def export_with(takes: Callable[[Limits], bool]) -> str:
    """Returns the advice to use a delegate that takes the model; "" if none does."""
    names = [limits.name for limits in _all_limits() if takes(limits)]
    if len(names) > 1:
        names = [", ".join(names[:-1]), names[-1]]
    return f"export with --delegate {' or '.join(names)}" if names else ""


def _mixes(limits: Limits) -> bool:
    return {4, 8} <= set(limits.weight_bits)


def _quantizes(limits: Limits, hidden_size: int) -> bool:
    return min(limits.weight_bits) < FLOAT_BITS and hidden_size % limits.hidden_multiple == 0


def _all_limits() -> list[Limits]:
    """Those of every delegate that can be imported."""
    limits = []
    for name in delegate_names():
        try:
            limits.append(get_limits(name))
        except DelegateError:  # another package's, which is broken
            continue
    return limits
