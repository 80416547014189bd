"""What a delegate must support for an export, checked before any work begins."""

from dataclasses import replace

from delegates import DelegateError, Limits
from delegates.features import Feature, Need
from delegates.limits import nothing_missing
from exporter.checkpoint import Checkpoint
from exporter.errors import ExportError
from exporter.models.spec import (
    ConvolutionSpec,
    DecoderSpec,
    DeltaSpec,
    ExpertsSpec,
    Mixer,
    MlpSpec,
)
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

    def check_numbers(limits: Limits) -> None:
        limits.check_weights(scheme.bits, seq_len)
        if scheme.type is not None:
            limits.check_hidden(spec.hidden_size)
        limits.check_head(scheme.head_bits)

    def fits(limits: Limits) -> bool:
        try:
            check_numbers(replace(limits, missing=nothing_missing))
        except DelegateError:
            return False
        return True

    kept = [Need(Feature.FLOAT16_GROUPS)] if scheme.name == KEEP else []
    adapters = [Need(Feature.ADAPTERS)] if options.adapters else []
    limits.check([*kept, *needs_of(spec), *adapters], fits)
    check_numbers(limits)
    check_adapters(options)


def needs_of(spec: DecoderSpec) -> list[Need]:
    """Returns the features that a decoder for such a context needs, in the order of its layers."""
    parts = {type(layer.feed_forward) for layer in spec.layers}
    experts = [Need(Feature.EXPERTS)] if ExpertsSpec in parts else []
    others = [Need(Feature.OTHER_STEPS, step) for step in _other_steps(spec)]
    mixers = [need for layer in spec.layers for need in _needs_of_mixer(layer.mixer)]
    return [*experts, *mixers, *others]


def _other_steps(spec: DecoderSpec) -> list[str]:
    """What a decoder computes that Llama does not, by what is multiplied, normalized or gated."""
    mlps = [layer.feed_forward for layer in spec.layers if isinstance(layer.feed_forward, MlpSpec)]
    activations = sorted({mlp.activation for mlp in mlps} - {"silu"})
    steps = {
        "a factor on the embedding": spec.embedding_scale is not None,
        "a soft cap of the logits": spec.logit_soft_cap is not None,
        "LayerNorm": spec.norm != "rms",
        "parts of a layer side by side": any(layer.parallel for layer in spec.layers),
        "an input of each layer": spec.layer_input is not None,
        "layers that are multiplied by a number": any(layer.scaled for layer in spec.layers),
        f"the activation {', '.join(activations)}": bool(activations),
        "feed-forward parts without a gate": not all(mlp.gated for mlp in mlps),
        "feed-forward parts with a limit": any(mlp.limit is not None for mlp in mlps),
        "norms of each head": any(
            mixer.qk_norm not in (None, "rows") or mixer.value_norm for mixer in spec.attentions
        ),
        "queries that have a rotary table of their own": any(
            mixer.query_rotary is not None for mixer in spec.attentions
        ),
        "attention with a gate": any(mixer.gate is not None for mixer in spec.attentions),
    }
    return [step for step, is_there in steps.items() if is_there]


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


def check_adapters(options: ExportOptions) -> None:
    """Checks that adapters can be kept apart from these weights.

    Raises:
        ExportError: the scheme changes what the linears read or write, which adapters do not know.
    """
    if not options.adapters:
        return
    method = options.scheme.choice
    if method.rounding == "awq" or method.folds_rotation:
        what = "awq" if method.rounding == "awq" else f"rotation={method.rotation}"
        raise ExportError(
            f"{what} changes the inputs of linears, which adapters kept apart also read: "
            "merge the adapter with --adapter DIR, or use another --quant or --method."
        )
