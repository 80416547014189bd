"""Compares a finished file with its module, before the file gets its name."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from exporter.errors import ExportError
from exporter.module.samples import Sample, with_nans
from exporter.module.signature import Signature
from exporter.module.source import Inputs, Made, failure
from exporter.module.state import state_kept

Run = Callable[[Sequence[Tensor]], Sequence[Tensor]]
Open = Callable[[], Run]
Outputs = Sequence[Sequence[Tensor]]

# The largest difference of a number from the module's, as a share of its output's largest number:
# the order of float32 additions, and one rounding of a half type, more in further layers.
_TOLERANCES = {torch.float16: 2e-2, torch.bfloat16: 1e-1}
_FLOAT = 1e-4
# Of a module whose own float32 is further from float64 than that, as where it divides by what is
# near zero: so many times as far, and never more than the last.
_ROUNDINGS, _MOST = 8, 1e-2
QUANTIZED = 5e-2  # a sum between two integers is rounded by its last bit
# In deep modules one such bit moves a row's other integers: so many times as far as the rounding of
# activations itself moves the output, and never more than the last.
_ROUNDED_TWICE, _MOST_QUANTIZED = 2, 0.25


@dataclass(frozen=True)
class ModuleAgreement:
    """
    Attributes:
        inputs: what the file was compared on, by title.
        calls: of the program.
        error: the largest difference, as a share of the largest number of its output.
        output: where it is.
        tolerance: the largest that rounding explains.
    """

    inputs: tuple[str, ...]
    calls: int
    error: float
    output: str
    tolerance: float

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "inputs": list(self.inputs)}


@torch.no_grad()
def references(run: Callable[..., Any], owner: nn.Module, sample: Sample) -> list[list[Tensor]]:
    """Returns what a module computes in each call of a sample; the state, the owner's, stays. Where
    it takes the usual strides alone, as a view does, they are what the file gives it.

    Raises:
        ExportError: the module fails; the sentence has its line.
    """
    outputs = []
    with state_kept(owner):
        for inputs in sample.calls:
            try:
                outputs.append([leaf.clone() for leaf in tree_leaves(_call(run, inputs))])
            except Exception as error:
                raise failure(f"The module fails on {sample.title}", error) from error
    return outputs


def _call(run: Callable[..., Any], inputs: Inputs) -> Any:
    try:
        return inputs.call(run)
    except RuntimeError:
        leaves = inputs.leaves()
        usual = [leaf.clone(memory_format=torch.contiguous_format) for leaf in leaves]
        if all(x.stride() == y.stride() for x, y in zip(leaves, usual, strict=True)):
            raise
        return inputs.with_leaves(usual).call(run)


def compare(
    open_file: Open,
    samples: Sequence[Sample],
    expected: Sequence[Sequence[Sequence[Tensor]]],
    signature: Signature,
    quantized: bool,
    exact: Callable[[Sample], Outputs | None],
) -> ModuleAgreement:
    """Runs the file on the samples; a program with state is opened for each.

    Args:
        exact: what the module would compute without rounding, float64; asked only where a number
            is further off than usual.

    Raises:
        ExportError: it cannot run, or a number differs by more than rounding.
    """
    worst, where, tolerance, calls = -1.0, "", _FLOAT, 0
    times, most = (_ROUNDED_TWICE, _MOST_QUANTIZED) if quantized else (_ROUNDINGS, _MOST)
    run = open_file()
    for sample, results in zip(samples, expected, strict=True):
        if signature.state:
            run = open_file()
        without_rounding = cache(partial(exact, sample))
        for at, (inputs, expected_outputs) in enumerate(zip(sample.calls, results, strict=True)):
            try:
                got = run([leaf.contiguous() for leaf in inputs.leaves()])
            except RuntimeError as error:
                raise ExportError(
                    f"The file cannot run on {sample.title} ({str(error).rstrip('.')}); nothing "
                    "was written: use another --delegate, or fix that size."
                ) from error
            calls += 1
            parts = zip(signature.outputs, expected_outputs, got, strict=True)
            for place, (spec, want, have) in enumerate(parts):
                far = difference(want, have)
                allowed = QUANTIZED if quantized else _TOLERANCES.get(want.dtype, _FLOAT)
                if allowed < far < most and want.dtype is torch.float32:
                    known = without_rounding()
                    own = 0.0 if known is None else difference(want.double(), known[at][place])
                    allowed = max(allowed, min(times * own, most))
                if not far <= allowed:
                    raise ExportError(
                        f"On {sample.title} the file's {spec.name} differs from the module's by "
                        f"{far:.2g} of its largest number, but rounding explains only "
                        f"{allowed:.2g}. Nothing was written: use another --delegate or --quant, "
                        "and report this."
                    )
                if far / allowed > worst:
                    worst, where, tolerance = far / allowed, spec.name, allowed
    titles = tuple(sample.title for sample in samples)
    return ModuleAgreement(titles, calls, max(worst, 0) * tolerance, where, tolerance)


def difference(want: Tensor, have: Tensor) -> float:
    """Returns the largest difference as a share of the largest number, infinite where shapes, NaNs
    or infinities differ."""
    if want.shape != have.shape or want.dtype != have.dtype:
        return float("inf")
    if want.numel() == 0:
        return 0.0
    if not want.is_floating_point():
        return 0.0 if torch.equal(want, have) else float("inf")
    want, have = want.double(), have.double()
    finite = torch.isfinite(want)
    if not torch.equal(want[~finite].nan_to_num(), have[~finite].nan_to_num()):
        return float("inf")
    if not torch.equal(want.isnan(), have.isnan()):
        return float("inf")
    if not bool(finite.any()):
        return 0.0
    want, have = want[finite], have[finite]
    scale = want.abs().max().clamp(min=1e-6)
    return float(((want - have).abs().max() / scale).nan_to_num(nan=float("inf")))


@torch.no_grad()
def hides_nan(open_file: Open, made: Made, index: int) -> bool:
    """Whether a NaN in an input is lost on the way through the file, but not through the module."""
    return any(
        bool((want.isnan() & ~have.isnan()).any())
        for inputs in with_nans(made, index)
        for want, have in zip(
            references(made.module, made.module, Sample("a NaN", (inputs,)))[0],
            open_file()(inputs.leaves()),
            strict=True,
        )
        if want.is_floating_point()
    )
