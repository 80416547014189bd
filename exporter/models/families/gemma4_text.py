"""Gemma 4, its text part: heads of two sizes, of which those of full layers rotate in part; the
last layers attend to the keys and values of earlier ones; each layer may have an input of its own,
and a number that multiplies what it computes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from exporter.errors import ExportError
from exporter.models.config import mlp, unrotated_attention
from exporter.models.families import gemma2
from exporter.models.family import Family
from exporter.models.fields import FULL, SLIDING, count, flag, layer_kinds, refuse
from exporter.models.rotary_config import rotary, whole_heads
from exporter.models.spec import AttentionSpec, DecoderSpec, LayerInputSpec, LayerSpec, Norms
from exporter.models.tensor_layout import Stored

DEFAULTS = {
    **gemma2.DEFAULTS,
    "vocab_size": 262144,
    "num_hidden_layers": 30,
    "max_position_embeddings": 131072,
    "sliding_window": 512,
    "global_head_dim": 512,
    "vocab_size_per_layer_input": 262144,
    "hidden_size_per_layer_input": 256,
    "num_kv_shared_layers": 0,
    "rope_parameters": {
        SLIDING: {"rope_type": "default", "rope_theta": 10000.0},
        FULL: {
            "rope_type": "proportional",
            "partial_rotary_factor": 0.25,
            "rope_theta": 1000000.0,
        },
    },
}
_PATTERN = 6  # of as many layers the last sees all positions
_OVERRIDES = ("head_dim", "num_key_value_heads")  # of per_layer_config
_NORMS = (
    Norms("input_layernorm", "post_attention_layernorm"),
    Norms("pre_feedforward_layernorm", "post_feedforward_layernorm"),
)
_STORED_AS = {
    "model.layer_inputs.embedding.": "model.embed_tokens_per_layer.",
    "model.layer_inputs.projection.": "model.per_layer_model_projection.",
    "model.layer_inputs.norm.": "model.per_layer_projection_norm.",
    ".per_layer_input.gate.": ".per_layer_input_gate.",
    ".per_layer_input.projection.": ".per_layer_projection.",
}
_KEYS_AND_VALUES = re.compile(
    r"model\.layers\.(\d{1,9})\.self_attn\.(?:k_proj|v_proj|k_norm|v_norm)\.(?:weight|bias)"
)


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    given = {name: value for name, value in config.items() if value is not None}
    if "per_layer_config" in config:  # null is not absent: no layer differs
        given["per_layer_config"] = config["per_layer_config"] or {}
    fields = {**DEFAULTS, **given, "rope_scaling": None}  # which no Gemma 4 reads
    if flag(fields, "enable_moe_block"):
        raise ExportError(
            "enable_moe_block true is not supported: it adds experts to feed-forward parts; take a "
            "Gemma 4 without experts, such as E2B or E4B."
        )
    refuse(fields, "use_bidirectional_attention", False, "vision")  # which a text has nothing of
    kinds = _kinds(fields)
    shared = count(fields, "num_kv_shared_layers", least=0)
    sources = _sources(kinds, shared)
    mixers = _mixers(fields, kinds, sources)
    wide = flag(fields, "use_double_wide_mlp")
    part = mlp(fields, act="hidden_activation")
    wider = replace(part, intermediate_size=2 * part.intermediate_size)
    layers = [
        LayerSpec(mixer, wider if wide and mixer.shares is not None else part, *_NORMS, scaled=True)
        for mixer in mixers
    ]
    plain = gemma2.scaled({**fields, "layer_types": None}, layers)
    size = count(fields, "hidden_size_per_layer_input", least=0)
    if size == 0:
        return plain
    table = LayerInputSpec(
        size, count(fields, "vocab_size_per_layer_input"), activation=part.activation
    )
    if table.vocab_size < plain.vocab_size:
        raise ExportError(
            f"vocab_size_per_layer_input {table.vocab_size} is below vocab_size "
            f"{plain.vocab_size}; every token needs a row in both tables."
        )
    return replace(plain, layer_input=table)


def _kinds(fields: Mapping[str, Any]) -> list[str]:
    """Returns each layer's kind; the last is full, whatever is listed, as in transformers."""
    kinds = layer_kinds(fields, lambda index: (index + 1) % _PATTERN != 0)
    return [*kinds[:-1], FULL]


def _sources(kinds: Sequence[str], shared: int) -> list[int | None]:
    """Returns the layer whose keys and values each attends to; None: its own."""
    own = len(kinds) - shared
    if own < 0:
        raise ExportError(
            f"num_kv_shared_layers {shared} is more than num_hidden_layers {len(kinds)}; set fewer."
        )
    last = {kind: index for index, kind in enumerate(kinds[:own])}
    lacking = [kind for kind in kinds[own:] if kind not in last]
    if lacking:
        raise ExportError(
            f"num_kv_shared_layers {shared} leaves no earlier layer of the kind {lacking[0]}, "
            "whose keys and values the shared ones need; set fewer."
        )
    return [None if index < own else last[kind] for index, kind in enumerate(kinds)]


def _mixers(
    fields: Mapping[str, Any], kinds: Sequence[str], sources: Sequence[int | None]
) -> list[AttentionSpec]:
    window = count(fields, "sliding_window") if SLIDING in kinds else None
    windows = {FULL: None, SLIDING: window}
    overrides = _overrides(fields, kinds)
    same = flag(fields, "attention_k_eq_v")
    mixers: list[AttentionSpec] = []
    for kind, source, changed in zip(kinds, sources, overrides, strict=True):
        bias = flag(fields, "attention_bias")
        plain = unrotated_attention(
            {**fields, **changed}, bias=bias, out_bias=bias, qk_norm="heads"
        )
        mixer = replace(
            plain,
            rotary=whole_heads(rotary(fields, plain.head_dim, kind)),
            window=windows[kind],
            scale=1.0,
            value_norm=True,
            values_are_keys=same and kind == FULL,
            shares=source,
        )
        if source is not None and _of_caches(mixer) != _of_caches(mixers[source]):
            raise ExportError(
                f"layer {len(mixers)} has other key/value heads than layer {source}, whose keys "
                "and values it uses (num_kv_shared_layers); they must be equal."
            )
        mixers.append(mixer)
    return mixers


def _of_caches(mixer: AttentionSpec) -> tuple[object, ...]:
    return mixer.num_key_value_heads, mixer.head_dim, mixer.window


def _overrides(fields: Mapping[str, Any], kinds: Sequence[str]) -> list[Mapping[str, Any]]:
    """Returns the fields in which each layer differs from the config: as `per_layer_config` lists
    them, or those of full layers."""
    given = fields.get("per_layer_config")
    if given is None:
        full = {"head_dim": count(fields, "global_head_dim")}
        if flag(fields, "attention_k_eq_v") and fields.get("num_global_key_value_heads"):
            full["num_key_value_heads"] = count(fields, "num_global_key_value_heads")
        return [full if kind == FULL else {} for kind in kinds]
    named = {_layer(key): value for key, value in given.items()} if isinstance(given, dict) else {}
    layers = set(range(len(kinds)))
    if not isinstance(given, dict) or len(named) < len(given) or not named.keys() <= layers:
        raise ExportError(
            f"per_layer_config is {given!r}; it must be an object from layers, 0 to "
            f"{len(kinds) - 1}, to the fields in which they differ."
        )
    for key, value in named.items():
        if not isinstance(value, dict) or not set(value) <= set(_OVERRIDES):
            raise ExportError(
                f"per_layer_config[{key}] is {value!r}; it must be an object, and supported are "
                f"the fields {' and '.join(_OVERRIDES)}."
            )
    return [named.get(index, {}) for index in range(len(kinds))]


def _layer(key: object) -> int:
    """The layer that a key of `per_layer_config` means, which files may write with zeros in front;
    -1: none."""
    text = str(key)
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else -1


def stored(spec: DecoderSpec, name: str) -> Stored:
    """A layer's own input has no modules of its own."""
    for ours, theirs in _STORED_AS.items():
        name = name.replace(ours, theirs)
    return Stored((name,))


def is_unread(spec: DecoderSpec, name: str) -> bool:
    """Published checkpoints also store keys and values of layers that use another's."""
    match = _KEYS_AND_VALUES.fullmatch(name)
    if match is None or int(match[1]) >= spec.num_hidden_layers:
        return False
    return spec.layers[int(match[1])].attention.shares is not None


FAMILY = Family("gemma4_text", spec, stored, is_unread)
