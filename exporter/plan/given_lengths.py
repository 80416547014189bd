"""Which lengths no model's program can have. Importing this module is fast."""

from exporter.errors import ExportError

# With fewer positions torch.export makes start_pos a constant: it believes that a dynamic call has
# at least 2 tokens, and so that they fill the cache.
LEAST_CONTEXT = 3


def check_given_lengths(max_context_len: int | None, max_seq_len: int | None) -> None:
    """Checks --max-context-len and --max-seq-len where the model's limit is not known.

    Raises:
        ExportError: one is too small, or they do not fit each other.
    """
    if max_context_len is not None and max_context_len < LEAST_CONTEXT:
        raise ExportError(
            f"--max-context-len {max_context_len} is not possible; it must be from "
            f"{LEAST_CONTEXT} to the model's limit."
        )
    if max_seq_len is None:
        return
    if max_seq_len < 1 and max_context_len is None:
        raise ExportError(
            f"--max-seq-len {max_seq_len} is not possible; it must be from 1 to the context length."
        )
    if max_context_len is not None and not 1 <= max_seq_len <= max_context_len:
        raise ExportError(
            f"--max-seq-len {max_seq_len} is not possible; it must be from 1 to {max_context_len}, "
            "the context length."
        )
