"""BERT (Devlin et al., 2018), and MiniLM, BGE, E5 and others that are built alike."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from exporter.errors import ExportError
from exporter.models.config import mlp
from exporter.models.encoder_spec import EncoderAttentionSpec, EncoderLayerSpec, EncoderSpec
from exporter.models.family import Family
from exporter.models.fields import count, positive, refuse
from exporter.models.tensor_layout import Stored

_DEFAULTS = {
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
}
_NAMES = {
    "embed_tokens": "embeddings.word_embeddings",
    "embedding_layer_norm": "embeddings.LayerNorm",
    "self_attn.q_proj": "attention.self.query",
    "self_attn.k_proj": "attention.self.key",
    "self_attn.v_proj": "attention.self.value",
    "self_attn.o_proj": "attention.output.dense",
    "self_attn_layer_norm": "attention.output.LayerNorm",
    "mlp.up_proj": "intermediate.dense",
    "mlp.down_proj": "output.dense",
    "mlp_layer_norm": "output.LayerNorm",
}
_POSITIONS = "embeddings.position_embeddings.weight"
_TYPES = "embeddings.token_type_embeddings.weight"


def spec(config: Mapping[str, Any]) -> EncoderSpec:
    fields = {**_DEFAULTS, **config}
    refuse(fields, "position_embedding_type", "absolute")
    refuse(fields, "is_decoder", False)
    refuse(fields, "add_cross_attention", False)
    heads, hidden_size = count(fields, "num_attention_heads"), count(fields, "hidden_size")
    if hidden_size % heads:
        raise ExportError(
            f"hidden_size {hidden_size} is not a multiple of num_attention_heads {heads}."
        )
    layer = EncoderLayerSpec(
        EncoderAttentionSpec(heads, hidden_size // heads),
        replace(mlp(fields, bias=True), gated=False),
    )
    return EncoderSpec(
        model_type=str(fields["model_type"]),
        vocab_size=count(fields, "vocab_size"),
        hidden_size=hidden_size,
        layers=(layer,) * count(fields, "num_hidden_layers"),
        max_position_embeddings=count(fields, "max_position_embeddings"),
        layer_norm_eps=positive(fields, "layer_norm_eps"),
    )


def stored(_: EncoderSpec, name: str) -> Stored:
    """A text is all of the first type: its row is added to the positions."""
    path, kind = name.removeprefix("model.").rsplit(".", 1)
    if path == "embed_positions":
        return Stored((_POSITIONS, _TYPES), _with_first_type)
    if path.startswith("layers."):
        index, part = path.removeprefix("layers.").split(".", 1)
        return Stored((f"encoder.layer.{index}.{_NAMES[part]}.{kind}",))
    return Stored((f"{_NAMES[path]}.{kind}",))


def _with_first_type(positions: Tensor, types: Tensor) -> Tensor:
    return positions.float() + types[0].float()


def is_unread(_: EncoderSpec, name: str) -> bool:
    """What only training reads, and numbers 0, 1, 2, ..."""
    return name.startswith(("pooler.", "cls.")) or name.endswith("position_ids")


FAMILY: Family[EncoderSpec] = Family("bert", spec, stored, is_unread)
