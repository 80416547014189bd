"""Specs of small decoders whose layers are all alike, by flat names as in a config.json."""

from dataclasses import replace
from typing import Any

from exporter.models.spec import AttentionSpec, DecoderSpec, LayerSpec, MlpSpec, RotarySpec

_OF_MIXER = {
    "num_attention_heads": "num_attention_heads",
    "num_key_value_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "attention_bias": "bias",
    "attention_out_bias": "out_bias",
    "qk_norm": "qk_norm",
}
_OF_FEED_FORWARD = {"intermediate_size": "intermediate_size", "mlp_bias": "bias"}
SMALL = DecoderSpec(
    model_type="llama",
    vocab_size=96,
    hidden_size=64,
    context_limit=64,
    rms_norm_eps=1e-5,
    layers=(
        LayerSpec(
            AttentionSpec(
                num_attention_heads=4, num_key_value_heads=2, head_dim=16, rotary=RotarySpec(16)
            ),
            MlpSpec(intermediate_size=80),  # padded to whole groups
        ),
    ),
    tie_word_embeddings=True,
)


def varied(
    spec: DecoderSpec,
    num_hidden_layers: int | None = None,
    no_rope_layers: tuple[int, ...] = (),
    **changes: Any,
) -> DecoderSpec:
    """The same decoder with other values, a layer's for every layer; all are like the first."""
    mixer = {_OF_MIXER[name]: changes.pop(name) for name in _OF_MIXER if name in changes}
    feed_forward = {
        _OF_FEED_FORWARD[name]: changes.pop(name) for name in _OF_FEED_FORWARD if name in changes
    }
    first = spec.layers[0]
    layer = replace(
        first,
        mixer=replace(first.mixer, **mixer),
        feed_forward=replace(first.feed_forward, **feed_forward),
    )
    layer = replace(layer, mixer=_turned(layer.mixer))
    unturned = replace(layer, mixer=replace(layer.mixer, rotary=None))
    count = spec.num_hidden_layers if num_hidden_layers is None else num_hidden_layers
    layers = tuple(unturned if index in no_rope_layers else layer for index in range(count))
    return replace(spec, layers=layers, **changes)


def _turned(mixer: AttentionSpec) -> AttentionSpec:
    return replace(mixer, rotary=replace(mixer.rotary or RotarySpec(0), head_dim=mixer.head_dim))
