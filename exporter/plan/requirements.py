"""What a delegate must support for an export, checked before any work begins."""

from delegates import Limits
from delegates.features import Feature, Need
from exporter.checkpoint import Checkpoint
from exporter.errors import ExportError
from exporter.models.spec import ConvolutionSpec, DecoderSpec, DeltaSpec, ExpertsSpec, Mixer
from exporter.options import ExportOptions
from quant.scheme import KEEP


def require_supported(
    options: ExportOptions, checkpoint: Checkpoint, limits: Limits, context: int, seq_len: int
) -> None:
    """Checks the weights, the lengths and all layers.

    Raises:
        DelegateError, ExportError: with what is not supported.
    """
    scheme, spec = options.scheme, checkpoint.config.for_context(context)
    if scheme.name == KEEP:
        limits.check([Need(Feature.FLOAT16_GROUPS)])
    limits.check_weights(scheme.bits, seq_len)
    if scheme.type is not None:
        limits.check_hidden(spec.hidden_size)
    limits.check_head(scheme.head_bits)
    limits.check(needs_of(spec))
    check_adapters(options, limits)


def needs_of(spec: DecoderSpec) -> list[Need]:
    """Returns the features that a decoder for such a context needs, in the order of its layers."""
    parts = {type(layer.feed_forward) for layer in spec.layers}
    experts = [Need(Feature.EXPERTS)] if ExpertsSpec in parts else []
    return experts + [need for layer in spec.layers for need in _needs_of_mixer(layer.mixer)]


def _needs_of_mixer(mixer: Mixer) -> list[Need]:
    if isinstance(mixer, ConvolutionSpec):
        return [Need(Feature.CONVOLUTIONS)]
    if isinstance(mixer, DeltaSpec):
        return [Need(Feature.DELTA_RULES)]
    features = {
        Feature.WINDOWS: mixer.window,
        Feature.SOFT_CAPS: mixer.soft_cap,
        Feature.SINKS: mixer.sinks or None,
        Feature.SHARED_CACHES: mixer.shares,
    }
    return [Need(feature, value) for feature, value in features.items() if value is not None]


def check_adapters(options: ExportOptions, limits: Limits) -> None:
    """Checks that adapters can be kept apart.

    Raises:
        DelegateError: the delegate does not keep adapters apart.
        ExportError: the scheme changes what the linears read or write, which adapters do not know.
    """
    if not options.adapters:
        return
    limits.check([Need(Feature.ADAPTERS)])
    method = options.scheme.choice
    if method.rounding == "awq" or method.folds_rotation:
        what = "awq" if method.rounding == "awq" else f"rotation={method.rotation}"
        raise ExportError(
            f"{what} changes the inputs of linears, which adapters that are kept apart also read: "
            "merge the adapter with --adapter DIR, or use another --quant or --method."
        )
