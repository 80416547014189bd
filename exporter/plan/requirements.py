"""What a delegate must support for an export, checked before any work begins."""

from delegates import Limits
from exporter.checkpoint import Checkpoint
from exporter.errors import ExportError
from exporter.models.spec import ConvolutionSpec, DeltaSpec, ExpertsSpec
from exporter.options import ExportOptions
from quant.scheme import KEEP


def require_supported(
    options: ExportOptions, checkpoint: Checkpoint, limits: Limits, context: int, seq_len: int
) -> None:
    """Checks the weights, the lengths and all layers.

    Raises:
        DelegateError, ExportError: with what is not supported.
    """
    if options.scheme.name == KEEP:
        limits.check_kept()
    limits.check(options.scheme.bits, seq_len)
    limits.check_context(context)
    if options.scheme.type is not None:
        limits.check_hidden(checkpoint.config.hidden_size)
    limits.check_head(options.scheme.head_bits)
    _check_experts(checkpoint, limits)
    _check_mixers(checkpoint, context, limits)
    check_adapters(options, limits)


def _check_mixers(checkpoint: Checkpoint, context: int, limits: Limits) -> None:
    """Checks that a delegate supports the mixers of all layers."""
    for layer in checkpoint.config.for_context(context).layers:
        mixer = layer.mixer
        if isinstance(mixer, ConvolutionSpec):
            limits.check_convolution()
        elif isinstance(mixer, DeltaSpec):
            limits.check_delta_rule()
        else:
            limits.check_attention(mixer.window, mixer.soft_cap, mixer.sinks)
            if mixer.shares is not None:
                limits.check_shared_caches()


def _check_experts(checkpoint: Checkpoint, limits: Limits) -> None:
    """Checks that a delegate supports the feed-forward parts of all layers."""
    if any(isinstance(layer.feed_forward, ExpertsSpec) for layer in checkpoint.config.layers):
        limits.check_experts()


def check_adapters(options: ExportOptions, limits: Limits) -> None:
    """Checks that adapters can be kept apart.

    Raises:
        DelegateError: the delegate does not keep adapters apart.
        ExportError: the scheme changes what the linears read or write, which adapters do not know.
    """
    if not options.adapters:
        return
    limits.check_adapters()
    method = options.scheme.choice
    if method.rounding == "awq" or method.folds_rotation:
        what = "awq" if method.rounding == "awq" else f"rotation={method.rotation}"
        raise ExportError(
            f"{what} changes the inputs of linears, which adapters that are kept apart also read: "
            "merge the adapter with --adapter DIR, or use another --quant or --method."
        )
