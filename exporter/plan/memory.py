"""Chooses where an export keeps large data, so that it stays below --max-memory."""

import math
import os
import shutil
from pathlib import Path

from delegates import DEFAULT_DELEGATE, get_limits
from exporter.errors import ExportError
from exporter.listener import Listener
from exporter.models.decoder import CausalLM
from exporter.plan.file_size import room_to_leave, weight_bytes
from exporter.plan.least_memory import LEAST_MEMORY
from exporter.plan.plan import Plan
from quant.layers.outside_layers import outer_parts
from quant.machine.memory import Peak, estimate_peak, resident
from quant.machine.memory_size import show_size
from quant.machine.spill import Spill
from quant.scheme import EMBEDDING_PART, HEAD_PART, Scheme
from quant.weight_type import FLOAT_BITS

_BESIDE = 1.5  # bytes of a number that is packed: as it comes, and its scales


def plan_memory(plan: Plan, listener: Listener) -> Spill:
    """Chooses memory or disk by estimates, before any work begins.

    Raises:
        ExportError: --max-memory is too small, or the disk is.
    """
    options, limit = plan.options, plan.options.max_memory
    if limit is None:
        return Spill()
    fits = _peaks(plan, spilled=False)
    if max(fits.values()) <= limit:
        return Spill()
    what = f"{plan.checkpoint.name} by {plan.scheme.name} with --delegate {options.delegate}"
    if not plan.limits.streams_weights and fits["lower"] > limit:
        other = (
            f", or take --delegate {DEFAULT_DELEGATE}, which keeps on disk what does not fit"
            if get_limits(DEFAULT_DELEGATE).streams_weights
            else ""
        )
        raise ExportError(
            f"{what} needs about {show_size(fits['lower'])} of memory, because it holds more than "
            f"a byte of every weight, but --max-memory is {show_size(limit)}; allow that "
            f"much{other}."
        )
    least = _peaks(plan, spilled=True)
    if max(least.values()) > limit:
        raise ExportError(
            f"{what} needs about {show_size(max(least.values()))} of memory even with the disk, "
            f"but --max-memory is {show_size(limit)}; allow that "
            f"much{', or take fewer --calibration-tokens' if least['quantize'] > limit else ''}."
        )
    directory = (options.cache or options.out.parent) / "spill"
    disk = _peak(plan, spilled=True).disk
    free = shutil.disk_usage(_existing(directory)).free
    needed = disk + room_to_leave(directory, options.out, plan.file_size)
    if free < needed:
        raise ExportError(
            f"{directory} has {show_size(free)} free, but what does not fit into --max-memory "
            f"needs {show_size(disk)} there{_beside(disk, needed)}; free some space, or choose "
            "another place with --cache."
        )
    listener.note(
        f"Keeping up to {show_size(disk)} on disk, in {directory}, to stay below "
        f"{show_size(limit)}: about {show_size(max(least.values()))} at the peak."
    )
    return Spill(directory)


def _peaks(plan: Plan, spilled: bool) -> dict[str, int]:
    """Returns the peak memory of each stage in bytes."""
    peak = _peak(plan, spilled)
    file = weight_bytes(plan.empty, plan.scheme, plan.limits)
    if spilled and plan.limits.streams_weights:
        lower = max(file, _packing(plan.empty, plan.scheme))
    else:
        lower = _peak(plan, spilled=False).held + 2 * file
    lower += 2 * sum(adapter.bytes for adapter in plan.checkpoint.adapters)
    return {
        "quantize": resident() + peak.quantizing,
        "lower": LEAST_MEMORY + lower,
    }


def _packing(model: CausalLM, scheme: Scheme) -> int:
    """Bytes of the largest matrix outside the layers, and of what it is packed into."""
    ends = model.lm_head.in_features * model.lm_head.out_features
    sizes = [(ends, scheme.type_of(HEAD_PART)), (ends, scheme.type_of(EMBEDDING_PART))]
    sizes += [(math.prod(part.shape), scheme.type_of(part.name)) for part in outer_parts(model)]
    pairs = ((numbers, FLOAT_BITS if type is None else type.bits) for numbers, type in sizes)
    return max(round(numbers * (_BESIDE + bits / 8)) for numbers, bits in pairs)


def _peak(plan: Plan, spilled: bool) -> Peak:
    return estimate_peak(plan.empty, plan.scheme, plan.text.calibration, spilled)


def _beside(disk: int, needed: int) -> str:
    return f", in addition to the file's {show_size(needed - disk)}" if needed > disk else ""


def _existing(path: Path) -> Path:
    """Returns the nearest existing directory of a path."""
    while not os.path.exists(path):  # answers no where pathlib raises, for impossible names
        path = path.parent
    return path
