"""Moonshine (Jeffries et al., 2024): an encoder of raw sound of any length, and a decoder of text
that attends to it.

Modules carry Hugging Face's names. `SoundEncoder` and `StepDecoder` are the programs that get
captured. The encoder reads a sound as rows of samples, and runs on fewer rows than it was captured
with: nothing in it knows how many there are. The decoder's caches are its inputs, as Whisper's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import exporter.models.segment_operators  # noqa: F401  (registers operators)
from exporter.errors import ExportError
from exporter.models.cross_attention import CrossProjections, later_tokens, tied_head
from exporter.models.family import Family
from exporter.models.fields import count, refuse
from exporter.models.rotary_config import rotary
from exporter.models.rotary_spec import RotarySpec
from exporter.models.rotary_tables import apply_rope, rope_table
from exporter.models.tensor_layout import Stored
from quant.modules import QuantizedEmbedding
from quant.weight_type import INT8

ROW = 64  # samples of a row: the step of the first convolution, which sees 127
_EPS = 1e-5
_STEPS = ((7, 3), (3, 2))  # kernel and stride of the convolutions behind it
_SHARE, _THETA = "partial_rotary_factor", 10000.0
ROTATED = ("q_proj", "k_proj")


@dataclass(frozen=True)
class TextSpec:
    """Of the decoder.

    Attributes:
        decoder_rope: of heads whose halves rotate with each other.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    decoder_num_hidden_layers: int
    decoder_num_attention_heads: int
    max_position_embeddings: int
    decoder_rope: RotarySpec


@dataclass(frozen=True)
class MoonshineSpec(TextSpec):
    """The fields of its config.json by their names there."""

    encoder_num_hidden_layers: int
    encoder_num_attention_heads: int
    encoder_rope: RotarySpec
    model_type: str = "moonshine"
    tie_word_embeddings: bool = False  # the head is the embedding's own parameter here

    @property
    def num_hidden_layers(self) -> int:
        return self.encoder_num_hidden_layers + self.decoder_num_hidden_layers


_SIZES = (
    *("vocab_size", "hidden_size", "intermediate_size", "encoder_num_hidden_layers"),
    *("decoder_num_hidden_layers", "encoder_num_attention_heads", "decoder_num_attention_heads"),
    "max_position_embeddings",
)


def spec(config: Mapping[str, Any]) -> MoonshineSpec:
    refuse(config, "encoder_hidden_act", "gelu")
    refuse(config, "decoder_hidden_act", "silu")
    refuse(config, "attention_bias", False)
    refuse(config, "tie_word_embeddings", True)
    sizes: dict[str, Any] = {name: count(config, name) for name in _SIZES}
    fields = {"rope_theta": _THETA, **config}
    if not config.get("rope_parameters"):
        fields = {_SHARE: 0.9, **fields}
    for part in ("encoder", "decoder"):
        heads = sizes[f"{part}_num_attention_heads"]
        refuse(config, f"{part}_num_key_value_heads", heads)
        if sizes["hidden_size"] % heads:
            raise ExportError(
                f"hidden_size {sizes['hidden_size']} is not a multiple of "
                f"{part}_num_attention_heads {heads}."
            )
        sizes[f"{part}_rope"] = rotary(fields, sizes["hidden_size"] // heads)
    if sizes["encoder_rope"].scaling is not None:
        raise ExportError("A rotary embedding that is scaled is not supported; use the default.")
    return MoonshineSpec(**sizes)


def stored(spec: MoonshineSpec, name: str) -> Stored:
    found = Stored((f"model.{name}",))
    if name == "encoder.conv1.weight":
        return found.then(_by_rows)
    rotated = name.split(".")[-2] in ROTATED and "self_attn" in name
    if not rotated:
        return found
    table = spec.encoder_rope if name.startswith("encoder") else spec.decoder_rope
    return found.from_pairs(table.head_dim, table.rotated)


def _by_rows(weight: Tensor) -> Tensor:
    """The weight of a convolution of samples, (outputs, 1, 127), as that of one of rows."""
    return F.pad(weight[:, 0], (0, 1)).unflatten(1, (2, ROW)).transpose(1, 2).contiguous()


def is_unread(_: MoonshineSpec, name: str) -> bool:
    return name == "proj_out.weight"  # which is tied to the embedding


FAMILY: Family[MoonshineSpec] = Family("moonshine", spec, stored, is_unread)


def states_of(rows: int) -> int:
    """How many states the encoder makes of so many rows; 0: there are too few."""
    left = rows - 1
    for kernel, stride in _STEPS:
        left = (left - kernel) // stride + 1 if left >= kernel else 0
    return left


def rows_of(states: int) -> int:
    """The fewest rows of which the encoder makes so many states."""
    rows = states
    for kernel, stride in reversed(_STEPS):
        rows = (rows - 1) * stride + kernel
    return rows + 1


class Attention(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(size, size, bias=False)
        self.k_proj = nn.Linear(size, size, bias=False)
        self.v_proj = nn.Linear(size, size, bias=False)
        self.o_proj = nn.Linear(size, size, bias=False)

    def heads_of(self, rows: Tensor) -> Tensor:
        """(1, rows, size) to (1, rows, heads, head_dim)."""
        return rows.unflatten(2, (self.heads, -1))

    def forward(
        self, query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        """Attends from heads to heads (1, rows, heads, head_dim); returns (1, rows, size).

        Args:
            bias: what is added to scores, (1, 1, rows, rows of keys).
        """
        q, k, v = (rows.transpose(1, 2) for rows in (query, keys, values))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.o_proj(out.transpose(1, 2).flatten(2))


class EncoderMlp(nn.Module):
    def __init__(self, size: int, inner: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(size, inner)
        self.fc2 = nn.Linear(inner, size)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)))


class DecoderMlp(nn.Module):
    def __init__(self, size: int, inner: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(size, 2 * inner)
        self.fc2 = nn.Linear(inner, size)

    def forward(self, x: Tensor) -> Tensor:
        up, gate = self.fc1(x).chunk(2, dim=-1)
        return self.fc2(F.silu(gate) * up)


class EncoderLayer(nn.Module):
    def __init__(self, size: int, heads: int, inner: int) -> None:
        super().__init__()
        self.self_attn = Attention(size, heads)
        self.mlp = EncoderMlp(size, inner)
        self.input_layernorm = nn.LayerNorm(size, bias=False)
        self.post_attention_layernorm = nn.LayerNorm(size, bias=False)

    def forward(self, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        attention, rows = self.self_attn, self.input_layernorm(x)
        query, key, value = (
            attention.heads_of(proj(rows))
            for proj in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        turned = (torch.ops.thimble.rotate(one, cosines, sines) for one in (query, key))
        x = x + attention(*turned, value)
        return x + self.mlp(self.post_attention_layernorm(x))


class DecoderLayer(nn.Module):
    """It attends to the sound as well."""

    def __init__(self, size: int, heads: int, inner: int) -> None:
        super().__init__()
        self.self_attn = Attention(size, heads)
        self.encoder_attn = Attention(size, heads)
        self.mlp = DecoderMlp(size, inner)
        self.input_layernorm = nn.LayerNorm(size, bias=False)
        self.post_attention_layernorm = nn.LayerNorm(size, bias=False)
        self.final_layernorm = nn.LayerNorm(size, bias=False)

    def forward(
        self,
        x: Tensor,
        angles: tuple[Tensor, Tensor],
        cached: Sequence[Tensor],
        sound: Sequence[Tensor],
        bias: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the layer's output for some tokens, and their keys and values.

        Args:
            angles: cosines and sines of the tokens, (rows, 1, head_dim).
            cached, sound: keys and values.
        """
        attention, heard, rows = self.self_attn, self.encoder_attn, self.input_layernorm(x)
        query = apply_rope(attention.heads_of(attention.q_proj(rows)), angles)
        key = apply_rope(attention.heads_of(attention.k_proj(rows)), angles).flatten(2)
        value = attention.v_proj(rows)
        keys, values = torch.cat((cached[0], key), 1), torch.cat((cached[1], value), 1)
        x = x + attention(query, attention.heads_of(keys), attention.heads_of(values), bias)
        rows = heard.heads_of(heard.q_proj(self.post_attention_layernorm(x)))
        x = x + heard(rows, *(heard.heads_of(part) for part in sound))
        return x + self.mlp(self.final_layernorm(x)), key, value


class Encoder(nn.Module):
    """
    Args:
        most: states of the longest sound.
    """

    def __init__(self, spec: MoonshineSpec, most: int) -> None:
        super().__init__()
        size = spec.hidden_size
        (second, third), (step, last) = zip(*_STEPS, strict=True)
        self.conv1 = nn.Conv1d(ROW, size, 2, bias=False)
        self.conv2: nn.Module = nn.Conv1d(size, 2 * size, second, stride=step)
        self.conv3: nn.Module = nn.Conv1d(2 * size, size, third, stride=last)
        self.groupnorm = nn.GroupNorm(1, size, eps=_EPS)
        self.layers = nn.ModuleList(
            EncoderLayer(size, spec.encoder_num_attention_heads, spec.intermediate_size)
            for _ in range(spec.encoder_num_hidden_layers)
        )
        self.layer_norm = nn.LayerNorm(size, bias=False)
        with torch.device("cpu"):
            cosines, sines = rope_table(spec.encoder_rope, most)
        self.register_buffer("cosines", cosines, persistent=False)
        self.register_buffer("sines", sines, persistent=False)

    def forward(self, sound: Tensor) -> Tensor:
        """Maps rows of samples (1, rows, ROW) to states (1, states_of(rows), hidden_size)."""
        x = self.embed(sound)
        for layer in self.layers:
            x = self.run(layer, x)
        return self.finish(x)

    def run(self, layer: nn.Module, x: Tensor) -> Tensor:
        result: Tensor = layer(x, self.cosines, self.sines)
        return result

    def finish(self, x: Tensor) -> Tensor:
        """Returns what the decoder attends to, of the last layer's output."""
        return self.layer_norm(x)

    def embed(self, sound: Tensor) -> Tensor:
        """Returns what the first layer reads."""
        x = torch.tanh(self.conv1(sound.transpose(1, 2))).transpose(1, 2)
        norm = self.groupnorm
        x = torch.ops.thimble.sample_norm(x, norm.weight, norm.bias, norm.eps)
        return F.gelu(self.conv3(F.gelu(self.conv2(x.transpose(1, 2))))).transpose(1, 2)


class Decoder(nn.Module):
    def __init__(self, spec: TextSpec) -> None:
        super().__init__()
        size = spec.hidden_size
        self.embed_tokens: nn.Embedding | QuantizedEmbedding
        self.embed_tokens = nn.Embedding(spec.vocab_size, size)
        self.layers = nn.ModuleList(
            DecoderLayer(size, spec.decoder_num_attention_heads, spec.intermediate_size)
            for _ in range(spec.decoder_num_hidden_layers)
        )
        self.norm = nn.LayerNorm(size, bias=False)
        self.rope = spec.decoder_rope

    def begin(self, tokens: Tensor) -> Tensor:
        """Returns what the first layer reads of all tokens of a text at once, (1, tokens)."""
        return self.embed_tokens(tokens)

    def read(self, layer: nn.Module, x: Tensor, states: Tensor) -> Tensor:
        """Runs a layer on all tokens of a text at once.

        Args:
            states: the encoder's.
        """
        assert isinstance(layer, DecoderLayer)
        attention, nothing = layer.encoder_attn, x.new_empty(1, 0, x.shape[2])
        sound = attention.k_proj(states), attention.v_proj(states)
        angles = rope_table(self.rope, x.shape[1])
        return layer(x, angles, (nothing, nothing), sound, later_tokens(x))[0]


class Moonshine(nn.Module):
    """All of its weights."""

    INTEGER_CONVOLUTIONS = "conv2", "conv3"  # of the encoder: those that integers may store
    STEP_TYPE = INT8  # of 8 bits, what each token reads

    def __init__(self, spec: MoonshineSpec, most: int) -> None:
        super().__init__()
        self.encoder = Encoder(spec, most)
        self.decoder = Decoder(spec)


class SoundEncoder(CrossProjections):
    """From a sound to the keys and values of each layer of the decoder."""

    def __init__(self, model: Moonshine) -> None:
        super().__init__(model.encoder, model.decoder.layers)

    def forward(self, sound: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        return self.project(self.encoder(sound))


class StepDecoder(nn.Module):
    """From some tokens to the logits of the next of each.

    Args:
        head: None: the table of tokens.
    """

    def __init__(
        self, decoder: Decoder, spec: TextSpec, most: int, head: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.decoder = decoder
        self.head = tied_head(decoder.embed_tokens) if head is None else head
        cosines, sines = rope_table(spec.decoder_rope, most)
        self.angles = nn.Embedding.from_pretrained(torch.cat((cosines, sines), -1)[:, 0])

    def forward(
        self,
        token: Tensor,
        cache_position: Tensor,
        bias: Tensor,
        keys: list[Tensor],
        values: list[Tensor],
        cross_keys: list[Tensor],
        cross_values: list[Tensor],
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Returns the logits (1, tokens, vocab_size), and a layer's keys and values (1, tokens,
        hidden_size) each.

        Args:
            token, cache_position: int64 (1, tokens).
            bias: 0 for each cached position before the tokens, and of these, which are the last,
                for a token itself and those before; else -infinity: (1, 1, tokens, most + tokens).
            keys, values: a layer each, (1, most, hidden_size).
            cross_keys, cross_values: the encoder's, (1, states, hidden_size).
        """
        decoder = self.decoder
        x = decoder.embed_tokens(token)
        cosines, sines = self.angles(cache_position).unsqueeze(2).chunk(2, dim=-1)
        new_keys, new_values = [], []
        for index, layer in enumerate(decoder.layers):
            cached = keys[index], values[index]
            sound = cross_keys[index], cross_values[index]
            x, key, value = layer(x, (cosines, sines), cached, sound, bias)
            new_keys.append(key)
            new_values.append(value)
        return self.head(decoder.norm(x)), new_keys, new_values
