"""Estimates the size of the file from shapes, and checks that the disk has room for it."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

from delegates import Limits
from exporter.errors import ExportError
from exporter.models.decoder import CausalLM
from exporter.plan.plan import Plan
from exporter.plan.widths import other_bytes, storage_of
from quant.budget.allocate_bits import numbers_of, small_numbers
from quant.cache.place import default_directory
from quant.layers.blocks import parts_of_layer, shape_of
from quant.layers.embedding_and_head import is_tied
from quant.layers.outside_layers import outer_parts
from quant.layers.walk import walk
from quant.machine.memory_size import show_size
from quant.measure.size import part_bytes, round_up
from quant.scheme import EMBEDDING_PART, FOUR_BITS, GROUP_SIZES, HEAD_PART, KEEP, Scheme
from quant.weight_type import FLOAT_BITS


def weight_bytes(model: CausalLM, scheme: Scheme, limits: Limits) -> int:
    """Returns the bytes of a model's weights in a delegate's file; `model` may be on the meta
    device."""
    storage, alignment = storage_of(limits), limits.sizes.alignment

    def end(part: str, table: bool) -> int:
        rows, columns = model.lm_head.out_features, model.lm_head.in_features
        type = scheme.type_of(part)
        if type is None:
            return round_up(rows * columns * storage.float_bytes, alignment)
        bytes_of = storage.table_bytes if table else storage.weight_bytes
        return round_up(bytes_of(rows, type.padded(columns), type), alignment)

    head, table = end(HEAD_PART, table=False), end(EMBEDDING_PART, table=True)
    type = scheme.type_of(HEAD_PART)
    bits = FLOAT_BITS if type is None else type.bits
    total = max(head, table) if is_tied(model) and bits in storage.shares_tied else head + table
    for stop in walk(model):
        for part in parts_of_layer(stop.layer):
            shapes = [shape_of(stop.layer, linear) for linear in part.linears]
            type = scheme.type_of(f"{stop.name}.{part.name}")
            total += part_bytes(part, shapes, type, storage, alignment)
    for outer in outer_parts(model):
        total += round_up(outer.bytes(scheme, storage), alignment)
    return total + small_numbers(model) * storage.float_bytes


def estimate_size(plan: Plan) -> int:
    """Estimates the bytes of the file; with a budget that is not spread yet, those of 4 bits
    for everything, or of the budget where it is smaller."""
    options, scheme, other = plan.options, plan.scheme, other_bytes(plan)
    if not (options.has_budget and scheme.name in FOUR_BITS and not scheme.types):
        return weight_bytes(plan.empty, scheme, plan.limits) + other
    size = weight_bytes(plan.empty, replace(scheme, head_bits=4), plan.limits) + other
    if options.bits is not None:
        return int(min(size, options.bits * numbers_of(plan.empty) / 8 + other))
    return size if options.max_size is None else min(size, options.max_size)


def size_note(plan: Plan) -> str | None:
    """Says which scheme makes a smaller file than groups that rows are filled up to, or than kept
    integers; None if none does."""
    scheme, size = plan.scheme, estimate_size(plan)
    if scheme.name == KEEP:
        other, option = Scheme(), "--quant gptq4"
        reason = "Kept integers make"
    elif scheme.group_size > min(GROUP_SIZES) and scheme.name != "none":
        smaller = [each for each in GROUP_SIZES if each < scheme.group_size]
        others = [replace(scheme, group_size=each) for each in reversed(smaller)]
        other = min(others, key=lambda each: estimate_size(replace(plan, scheme=each)))
        option = f"--group-size {other.group_size}"
        reason = f"Rows that are filled up to groups of {scheme.group_size} make"
    else:
        return None
    least = estimate_size(replace(plan, scheme=other))
    if least >= size:
        return None
    return (
        f"{reason} a file of about {show_size(size)}; {option} makes one of about "
        f"{show_size(least)}."
    )


def require_room(plan: Plan) -> int:
    """Returns the estimated bytes of the file, after checking its disk and the ETRecord's.

    Raises:
        ExportError: a disk has too little free space.
    """
    options, size = plan.options, estimate_size(plan)
    sizes = [(options.out, "--out", size)]
    if options.etrecord is not None:
        sizes.append((options.etrecord, "--etrecord", _etrecord_bytes(plan)))
    taken: dict[int, int] = {}  # of each disk
    for path, option, more in sizes:
        directory = path.absolute().parent
        disk = directory.stat().st_dev
        before = taken.get(disk, 0)
        taken[disk] = before + more
        usage = shutil.disk_usage(directory)
        if usage.total and usage.free < taken[disk]:  # some file systems do not count and report 0
            beside = f" next to {options.out}" if before else ""
            raise ExportError(
                f"{path} needs about {show_size(more)}{beside}, but {directory} has only "
                f"{show_size(max(usage.free - before, 0))} free; free some space, or choose "
                f"another place with {_where(path, option)}."
            )
    return size


def _where(path: Path, option: str) -> str:
    """What chooses the place of a file: it is not an option where the cache has it."""
    cached = path.absolute().is_relative_to(default_directory().absolute())
    return "the environment's THIMBLE_CACHE" if cached else option


def _etrecord_bytes(plan: Plan) -> int:
    """Returns the bytes that writing an ETRecord needs: its weights, a byte or a float32 each, as
    ExecuTorch stores them, and about as much again for the compressed ones."""
    return 2 * numbers_of(plan.empty) * (4 if plan.scheme.name == "none" else 1)


def room_to_leave(cache: Path, out: Path, size: int) -> int:
    """Returns the bytes that a cache must leave free for a file of `size`: all of them if both are
    on the same disk, else none."""
    if size == 0:
        return 0
    while not os.path.exists(cache):  # it is created when needed
        cache = cache.parent
    return size if cache.stat().st_dev == out.absolute().parent.stat().st_dev else 0
