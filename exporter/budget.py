"""An export within a budget: --bits or --max-size made into a scheme before anything is stored."""

from dataclasses import replace
from pathlib import Path

import torch

from delegates import Limits
from exporter.checkpoint import Checkpoint
from exporter.errors import ExportError
from exporter.listener import Listener
from exporter.model import CausalLM
from exporter.options import ExportOptions
from exporter.pte import REPORT_BYTES
from exporter.text import Text
from quant.budget import Budget, spread
from quant.memory_size import show_size
from quant.scheme import GROUP_SIZES
from quant.size import STOCK, Storage

_GRAPH = 1 << 15  # bytes of a program without layers; more than any delegate takes
_GRAPH_LAYER = 1 << 15


def storage_of(limits: Limits) -> Storage:
    """How a delegate's files store weights."""
    return Storage(limits.weight_bytes or STOCK.weight_bytes, limits.shares_tied)


def within_budget(
    options: ExportOptions,
    limits: Limits,
    checkpoint: Checkpoint,
    text: Text,
    max_context_len: int,
    listener: Listener,
) -> ExportOptions:
    """The same options with a scheme that keeps the budget; those without one as they are.

    Raises:
        DelegateError: the delegate does not take 4 and 8 bits in one program.
        ExportError: a rotation would untie weights that the budget counts once.
        QuantError: the budget cannot be kept.
    """
    if options.bits is None and options.max_size is None:
        return options
    method = options.scheme.method
    if method is not None and method.rotation != "none" and checkpoint.config.tie_word_embeddings:
        raise ExportError(
            f"rotation={method.rotation} unties this model's embedding and lm_head, which a budget "
            "counts as one; leave out the rotation, or --bits and --max-size."
        )
    limits.check_mix(checkpoint.config.num_hidden_layers)
    with torch.device("meta"):
        model = CausalLM(checkpoint.config)
    other = _other_bytes(limits, checkpoint, text, max_context_len)
    budget = Budget(options.bits, options.max_size, other, storage_of(limits))
    scheme = spread(
        model,
        options.scheme,
        budget,
        checkpoint,
        text.calibration,
        lambda: listener.stage("measure"),
        options.device,
    )
    return replace(options, scheme=scheme)


def require_size(options: ExportOptions, path: Path) -> None:
    """Raises ExportError where a finished file is larger than it may be."""
    size = path.stat().st_size
    if options.max_size is not None and size > options.max_size:
        raise ExportError(
            f"the file takes {show_size(size)}, more than was foretold and than --max-size "
            f"{show_size(options.max_size)}; ask for a little less, and report this."
        )


def _other_bytes(limits: Limits, checkpoint: Checkpoint, text: Text, max_context_len: int) -> int:
    """What a file takes beside its weights, at most."""
    config = checkpoint.config
    layers = config.num_hidden_layers
    blobs = sum(len(blob) for blob in text.blobs.values()) + REPORT_BYTES
    rope = 2 * max_context_len * config.head_dim * 4
    aligned = (7 * layers + 4 + len(text.blobs)) * limits.weight_alignment
    # ExecuTorch's own 4-bit embedding has scales of 4 bytes, not 2.
    scales = 0 if limits.shares_tied else 2 * config.vocab_size * config.hidden_size
    return blobs + rope + aligned + _GRAPH + _GRAPH_LAYER * layers + scales // min(GROUP_SIZES)
