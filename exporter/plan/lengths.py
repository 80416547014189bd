"""Which lengths a model's program may have."""

from delegates.features import Feature
from delegates.limits import Limits
from exporter.errors import ExportError
from exporter.models.rotary_spec import DynamicScaling, LongRopeScaling
from exporter.models.spec import DecoderSpec
from exporter.plan.given_lengths import LEAST_CONTEXT, check_given_lengths
from exporter.plan.kv_caches import kv_caches

CACHES_SIZE = 512_000_000  # bytes, the most of one conversation's caches in a default context
_ALWAYS, _STEP = 2048, 256  # positions: what a context has at least, and a step


def default_context(spec: DecoderSpec, limits: Limits, item_bytes: int) -> int:
    """Returns the positions of a context that the user did not choose: the model's own limit, or
    less, for the delegate or for caches of CACHES_SIZE, but of these no less than 2048.

    Args:
        item_bytes: of a number in the caches.
    """
    longest = min(limits.default_context, spec.context_limit)
    least = min(longest, _ALWAYS)
    if _changes_with_length(spec, limits):
        return least

    def size(context: int) -> int:
        caches = kv_caches(spec.for_context(context), limits, item_bytes, context, context)
        return sum(cache.size for cache in caches)

    shorter = range((longest - 1) // _STEP * _STEP, least, -_STEP)
    fitting = (context for context in (longest, *shorter) if size(context) <= CACHES_SIZE)
    return next(fitting, least)


def context_note(spec: DecoderSpec, limits: Limits, context: int) -> str | None:
    """Returns a sentence on a default context that is shorter than the model's; else None."""
    if context == spec.context_limit:
        return None
    full = min(limits.default_context, spec.context_limit)
    cut = context < full and not _changes_with_length(spec, limits)
    caches = f", because the caches of more take over {CACHES_SIZE // 10**6} MB" if cut else ""
    return (
        f"The file's context is {context} of the model's {spec.context_limit} tokens{caches}; "
        "--max-context-len sets another."
    )


def _changes_with_length(spec: DecoderSpec, limits: Limits) -> bool:
    """Whether the rotary table for a longer context is another one for short texts too."""
    both = Feature.ROTARY_BY_LENGTH in limits.supports
    changing = DynamicScaling if both else LongRopeScaling | DynamicScaling
    return any(isinstance(table.scaling, changing) for table in spec.rotary_tables)


def check_lengths(config: DecoderSpec, max_context_len: int, max_seq_len: int) -> None:
    """Raises ExportError for lengths that do not fit each other or the model."""
    limit = config.context_limit
    if not LEAST_CONTEXT <= max_context_len <= limit:
        raise ExportError(
            f"--max-context-len {max_context_len} is not possible; it must be from "
            f"{LEAST_CONTEXT} to {limit}, the model's limit."
        )
    check_given_lengths(max_context_len, max_seq_len)
