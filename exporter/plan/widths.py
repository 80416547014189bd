"""4 to 8 bits in one file: turns --bits, --max-size or the default size into a scheme, before
anything is stored."""

from pathlib import Path

from delegates import DEFAULT_DELEGATE, Limits, get_limits
from exporter.errors import ExportError
from exporter.file.pte import REPORT_BYTES
from exporter.listener import Listener
from exporter.options import ExportOptions
from exporter.plan.plan import Plan
from quant.budget.allocate_bits import (
    Budget,
    allocate_bits,
    sample,
    small_numbers,
)
from quant.budget.bounds import require_spreadable
from quant.budget.sensitivity import measuring_bytes
from quant.layers.blocks import mixtures_of
from quant.layers.walk import layers_of
from quant.machine.memory import resident
from quant.machine.memory_size import show_size
from quant.measure.size import STOCK, Storage, round_up
from quant.scheme import DEFAULT_WIDTHS, Scheme

_RECORD = 1 << 10  # bytes of the integrity record; more than any file's
_PAIR = 512  # the most bytes of a program for an adapter's two matrices of a linear
_LINE = 64  # bytes, to which vectors of floats are padded


def storage_of(limits: Limits) -> Storage:
    """Returns how a delegate's files store weights."""
    stored = limits.sizes
    return Storage(
        stored.weight_bytes or STOCK.weight_bytes,
        stored.table_bytes or STOCK.table_bytes,
        stored.float_bytes,
        stored.shares_tied,
        limits.weight_bits,
    )


def within_budget(plan: Plan, listener: Listener) -> Scheme:
    """Returns a scheme that meets the budget of the options.

    Raises:
        DelegateError: the delegate does not support several widths in one program.
        ExportError: a rotation would untie weights that the budget counts once, or --max-memory is
            less than the measurement needs.
        QuantError: the scheme's bits cannot be spread, or the budget cannot be met.
    """
    options, limits = plan.options, plan.limits
    require_spreadable(plan.scheme)
    if _unties(plan):
        raise ExportError(
            f"rotation={plan.scheme.choice.rotation} unties this model's embedding and lm_head, "
            "but a budget counts them as one; leave out the rotation, or --bits and --max-size."
        )
    limits.check_mix(plan.checkpoint.config.num_hidden_layers)
    plan.checkpoint.check(plan.empty)
    needed = _lacking(plan)
    if needed is not None:
        raise ExportError(
            f"to measure the effect of bits, {plan.checkpoint.name} needs about "
            f"{show_size(needed)} of memory, but --max-memory is "
            f"{show_size(options.max_memory or 0)}; allow that much, or leave out --bits and "
            "--max-size."
        )
    alignment = 1 if options.max_size is None else limits.sizes.alignment
    budget = Budget(
        options.bits,
        options.max_size,
        other=other_bytes(plan),
        storage=storage_of(limits),
        alignment=alignment,
    )
    return _allocate(plan, budget, listener)


def choose_default_widths(plan: Plan, listener: Listener) -> Scheme:
    """Returns a scheme of 4 to 8 bits, as large as 4 in all layers and 8 in the ends. It is the
    same for all delegates; for one that does not store them all, the scheme stays."""
    if not set(DEFAULT_WIDTHS) <= set(plan.limits.weight_bits) or _unties(plan):
        return plan.scheme
    plan.checkpoint.check(plan.empty)
    needed = _lacking(plan)
    if needed is not None:
        listener.note(
            "Storing every layer in 4 bits: to measure the effect of more, the model needs about "
            f"{show_size(needed)} of memory, more than --max-memory."
        )
        return plan.scheme
    budget = Budget(even=True, storage=storage_of(get_limits(DEFAULT_DELEGATE)))
    return _allocate(plan, budget, listener)


def _allocate(plan: Plan, budget: Budget, listener: Listener) -> Scheme:
    """The scheme within the budget."""
    resources = plan.resources
    return allocate_bits(
        plan.empty,
        plan.scheme,
        budget,
        plan.checkpoint,
        plan.text.calibration,
        lambda: listener.stage("measure"),
        resources.device,
        resources.cache,
        resources.ranks,
        listener.progress,
    )


def _lacking(plan: Plan) -> int | None:
    """Bytes that the measurement needs, if --max-memory allows less."""
    limit, calibration = plan.options.max_memory, plan.text.calibration
    if limit is None or calibration is None:
        return None
    needed = resident() + measuring_bytes(plan.empty, sample(calibration))
    return needed if needed > limit else None


def _unties(plan: Plan) -> bool:
    """Whether a folded rotation makes two weights of tied ends."""
    return plan.scheme.choice.folds_rotation and plan.checkpoint.config.tie_word_embeddings


def require_size(options: ExportOptions, path: Path) -> None:
    """Raises ExportError if a finished file is larger than --max-size."""
    size = path.stat().st_size
    if options.max_size is not None and size > options.max_size:
        raise ExportError(
            f"the file has {show_size(size)}, more than was estimated and more than --max-size "
            f"{show_size(options.max_size)}; set --max-size a little smaller, and report this."
        )


def other_bytes(plan: Plan) -> int:
    """Returns the most bytes that a file needs besides its weights."""
    config, stored, model = plan.checkpoint.config, plan.limits.sizes, plan.empty

    def filled(size: int) -> int:
        return round_up(size, stored.alignment)

    blobs = sum(filled(len(blob)) for blob in plan.text.blobs.values()) + filled(REPORT_BYTES)
    # Two pieces, the graph and what the delegate reads, however these bytes are divided.
    tensors = [sum(1 for _ in layer.parameters()) for layer in layers_of(model)]
    layers = sum(min(stored.layer_bytes, stored.tensor_bytes * count) for count in tensors)
    pairs = sum(_PAIR * len(one.pairs) for one in plan.checkpoint.adapters)
    program = filled(stored.graph_bytes + layers + pairs) + stored.alignment
    row = sum(table.head_dim for table in config.rotary_tables)
    positions = plan.max_context_len + (plan.spec.original_context or 0)
    rotary = stored.rotary_numbers * positions * row * stored.float_bytes
    small = small_numbers(model) * stored.float_bytes
    vectors = sum(parameter.dim() < 2 for parameter in model.parameters())
    floats = filled(small + rotary + 2 * _LINE * vectors) - small
    routers = sum(len(mixtures_of(layer)) for layer in layers_of(model)) * stored.alignment
    # The parts of an adapter start at lines, and the adapter at the alignment.
    adapters = sum(
        filled(adapter.bytes + 2 * _LINE * len(adapter.pairs))
        for adapter in plan.checkpoint.adapters
    )
    sight = 0
    if plan.sight is not None:
        sight = filled(plan.sight.bytes(storage_of(plan.limits))) + stored.graph_bytes
    return blobs + program + floats + routers + adapters + sight + _RECORD
