"""Which lengths a model's program may have."""

from exporter.errors import ExportError
from exporter.models.spec import DecoderSpec

# With fewer positions torch.export makes start_pos a constant: it believes that a dynamic call has
# at least 2 tokens, and so that they fill the cache.
LEAST_CONTEXT = 3


def check_lengths(config: DecoderSpec, max_context_len: int, max_seq_len: int) -> None:
    """Raises ExportError for lengths that do not fit each other or the model."""
    limit = config.context_limit
    if not LEAST_CONTEXT <= max_context_len <= limit:
        raise ExportError(
            f"--max-context-len {max_context_len} is not possible; it must be from "
            f"{LEAST_CONTEXT} to {limit}, the model's limit."
        )
    if not 1 <= max_seq_len <= max_context_len:
        raise ExportError(
            f"--max-seq-len {max_seq_len} is not possible; it must be from 1 to {max_context_len}, "
            "the context length."
        )
