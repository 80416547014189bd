"""Whisper (Radford et al., 2022): an encoder of sound, and a decoder of text that attends to it.

Modules carry Hugging Face's names. `WindowEncoder` and `TextDecoder` are the programs that get
captured. The decoder's caches are its inputs: keys and values of the window, which the encoder's
program computes once, and those of the tokens before, to which each call returns a row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exporter.errors import ExportError
from exporter.models.cross_attention import CrossProjections, later_tokens, tied_head
from exporter.models.family import Family
from exporter.models.fields import count, refuse
from exporter.models.tensor_layout import Stored
from quant.modules import QuantizedEmbedding
from quant.weight_type import WeightType


@dataclass(frozen=True)
class WhisperSpec:
    """The fields of its config.json by their names there."""

    vocab_size: int
    d_model: int
    encoder_layers: int
    decoder_layers: int
    encoder_attention_heads: int
    decoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_ffn_dim: int
    num_mel_bins: int
    max_source_positions: int
    max_target_positions: int
    model_type: str = "whisper"
    tie_word_embeddings: bool = False  # the head is the embedding's own parameter here

    @property
    def num_hidden_layers(self) -> int:
        return self.encoder_layers + self.decoder_layers


def spec(config: Mapping[str, Any]) -> WhisperSpec:
    refuse(config, "activation_function", "gelu")
    refuse(config, "scale_embedding", False)
    refuse(config, "tie_word_embeddings", True)
    names = [name for name in WhisperSpec.__annotations__ if name not in _FIXED]
    sizes: dict[str, Any] = {name: count(config, name) for name in names}
    read = WhisperSpec(**sizes)
    for name in ("encoder_attention_heads", "decoder_attention_heads"):
        heads = getattr(read, name)
        if read.d_model % heads:
            raise ExportError(f"d_model {read.d_model} is not a multiple of {name} {heads}.")
    return read


_FIXED = {"model_type", "tie_word_embeddings"}


def stored(_: WhisperSpec, name: str) -> Stored:
    return Stored((f"model.{name}",))


def is_unread(_: WhisperSpec, name: str) -> bool:
    return name == "proj_out.weight"  # which is tied to the embedding


FAMILY: Family[WhisperSpec] = Family("whisper", spec, stored, is_unread)


class Attention(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(size, size)
        self.k_proj = nn.Linear(size, size, bias=False)
        self.v_proj = nn.Linear(size, size)
        self.out_proj = nn.Linear(size, size)

    def forward(
        self, x: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        """Attends from x to rows of keys and values, all (1, rows, size).

        Args:
            bias: what is added to scores, (1, 1, 1, rows of keys).
        """
        return self.attend(self.q_proj(x), keys, values, bias)

    def attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        query, key, value = (
            rows.unflatten(2, (self.heads, -1)).transpose(1, 2) for rows in (queries, keys, values)
        )
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return self.out_proj(out.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """What those of the encoder and of the decoder have."""

    def __init__(self, size: int, heads: int, ffn_dim: int) -> None:
        super().__init__()
        self.self_attn = Attention(size, heads)
        self.self_attn_layer_norm = nn.LayerNorm(size)
        self.fc1 = nn.Linear(size, ffn_dim)
        self.fc2 = nn.Linear(ffn_dim, size)
        self.final_layer_norm = nn.LayerNorm(size)

    def feed_forward(self, x: Tensor) -> Tensor:
        return x + self.fc2(F.gelu(self.fc1(self.final_layer_norm(x))))


class EncoderLayer(Layer):
    def forward(self, x: Tensor) -> Tensor:
        rows = self.self_attn_layer_norm(x)
        keys, values = self.self_attn.k_proj(rows), self.self_attn.v_proj(rows)
        return self.feed_forward(x + self.self_attn(rows, keys, values))


class DecoderLayer(Layer):
    """It attends to the window as well."""

    def __init__(self, size: int, heads: int, ffn_dim: int) -> None:
        super().__init__(size, heads, ffn_dim)
        self.encoder_attn = Attention(size, heads)
        self.encoder_attn_layer_norm = nn.LayerNorm(size)

    def forward(
        self, x: Tensor, cached: Sequence[Tensor], window: Sequence[Tensor], bias: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns the layer's output for one token, its key and value, and what it asks the window.

        Args:
            cached, window: keys and values.
        """
        rows = self.self_attn_layer_norm(x)
        key, value = self.self_attn.k_proj(rows), self.self_attn.v_proj(rows)
        keys, values = torch.cat((cached[0], key), 1), torch.cat((cached[1], value), 1)
        x = x + self.self_attn(rows, keys, values, bias)
        query = self.encoder_attn.q_proj(self.encoder_attn_layer_norm(x))
        x = x + self.encoder_attn.attend(query, window[0], window[1])
        return self.feed_forward(x), key, value, query


class Encoder(nn.Module):
    def __init__(self, spec: WhisperSpec) -> None:
        super().__init__()
        size = spec.d_model
        self.conv1 = nn.Conv1d(spec.num_mel_bins, size, 3, padding=1)
        self.conv2 = nn.Conv1d(size, size, 3, stride=2, padding=1)
        self.embed_positions = nn.Embedding(spec.max_source_positions, size)
        self.layers = nn.ModuleList(
            EncoderLayer(size, spec.encoder_attention_heads, spec.encoder_ffn_dim)
            for _ in range(spec.encoder_layers)
        )
        self.layer_norm = nn.LayerNorm(size)

    def forward(self, features: Tensor) -> Tensor:
        """Maps a window's features (1, mels, frames) to states (1, frames / 2, d_model)."""
        x = self.embed(features)
        for layer in self.layers:
            x = self.run(layer, x)
        return self.finish(x)

    def run(self, layer: nn.Module, x: Tensor) -> Tensor:
        result: Tensor = layer(x)
        return result

    def finish(self, x: Tensor) -> Tensor:
        """Returns what the decoder attends to, of the last layer's output."""
        return self.layer_norm(x)

    def embed(self, features: Tensor) -> Tensor:
        """Returns what the first layer reads."""
        x = F.gelu(self.conv2(F.gelu(self.conv1(features))))
        return x.transpose(1, 2) + self.embed_positions.weight


class Decoder(nn.Module):
    def __init__(self, spec: WhisperSpec) -> None:
        super().__init__()
        size = spec.d_model
        self.embed_tokens: nn.Embedding | QuantizedEmbedding
        self.embed_tokens = nn.Embedding(spec.vocab_size, size)
        self.embed_positions = nn.Embedding(spec.max_target_positions, size)
        self.layers = nn.ModuleList(
            DecoderLayer(size, spec.decoder_attention_heads, spec.decoder_ffn_dim)
            for _ in range(spec.decoder_layers)
        )
        self.layer_norm = nn.LayerNorm(size)

    def begin(self, tokens: Tensor) -> Tensor:
        """Returns what the first layer reads of all tokens of a text at once, (1, tokens)."""
        return self.embed_tokens(tokens) + self.embed_positions.weight[: tokens.shape[1]]

    def read(self, layer: nn.Module, x: Tensor, states: Tensor) -> Tensor:
        """Runs a layer on all tokens of a text at once.

        Args:
            states: the encoder's.
        """
        assert isinstance(layer, DecoderLayer)
        attention, nothing = layer.encoder_attn, x.new_empty(1, 0, x.shape[2])
        window = attention.k_proj(states), attention.v_proj(states)
        return layer(x, (nothing, nothing), window, later_tokens(x))[0]


class Whisper(nn.Module):
    """All of its weights."""

    # Of the encoder: those that integers may store.
    INTEGER_CONVOLUTIONS: tuple[str, ...] = "conv1", "conv2"
    # Of 8 bits, what each token reads. Its time is that of the bytes: groups cost next to none.
    STEP_TYPE = WeightType(8, 64, 1)

    def __init__(self, spec: WhisperSpec) -> None:
        super().__init__()
        self.encoder = Encoder(spec)
        self.decoder = Decoder(spec)


class WindowEncoder(CrossProjections):
    """From a window's features to the keys and values of each layer of the decoder."""

    def __init__(self, model: Whisper) -> None:
        super().__init__(model.encoder, model.decoder.layers)

    def forward(self, features: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        return self.project(self.encoder(features))


class TextDecoder(nn.Module):
    """From a token to the logits of the next.

    Args:
        asking: the layers whose queries of the window are returned as well, which tell when each
            token was spoken.
    """

    def __init__(self, model: Whisper, asking: Sequence[int] = ()) -> None:
        super().__init__()
        self.decoder = model.decoder
        self.asking = tuple(asking)
        self.head = tied_head(model.decoder.embed_tokens)

    def forward(
        self,
        token: Tensor,
        cache_position: Tensor,
        bias: Tensor,
        keys: list[Tensor],
        values: list[Tensor],
        cross_keys: list[Tensor],
        cross_values: list[Tensor],
    ) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
        """Returns the logits (1, 1, vocab_size), and a key, a value and the queries of the layers
        that are asked for (1, 1, d_model) a layer.

        Args:
            token, cache_position: int64 (1, 1).
            bias: 0 for each cached position before and for the token itself, which is the last;
                else -infinity: (1, 1, 1, max_target_positions + 1).
            keys, values: a layer each, (1, max_target_positions, d_model).
            cross_keys, cross_values: the encoder's, (1, max_source_positions, d_model).
        """
        decoder = self.decoder
        x = decoder.embed_tokens(token) + decoder.embed_positions(cache_position)
        new_keys, new_values, queries = [], [], []
        for index, layer in enumerate(decoder.layers):
            cached = keys[index], values[index]
            window = cross_keys[index], cross_values[index]
            x, key, value, query = layer(x, cached, window, bias)
            new_keys.append(key)
            new_values.append(value)
            if index in self.asking:
                queries.append(query)
        return self.head(decoder.layer_norm(x)), new_keys, new_values, queries


class JoinedEncoder(WindowEncoder):
    """WindowEncoder with one output, as ExecuTorch's own runner takes it."""

    def forward(self, features: Tensor) -> Tensor:  # type: ignore[override]
        """Returns (1, max_source_positions, 2 * decoder_layers * d_model): the keys of each layer
        of the decoder, then the values."""
        keys, values = super().forward(features)
        return torch.cat(keys + values, 2)


class StatefulDecoder(nn.Module):
    """TextDecoder that keeps the keys and values of the tokens before, as ExecuTorch's own runner
    takes it. A text begins at position 0."""

    def __init__(self, model: Whisper, spec: WhisperSpec) -> None:
        super().__init__()
        self.text_decoder = TextDecoder(model)
        self.size, self.layers = spec.d_model, spec.decoder_layers
        self.rows = spec.max_target_positions
        self.register_buffer("places", torch.arange(self.rows + 1), persistent=False)
        for index in range(2 * self.layers):
            rows = torch.zeros(1, self.rows, self.size)
            self.register_buffer(f"cache_{index}", rows, persistent=False)

    def forward(self, token: Tensor, window: Tensor, cache_position: Tensor) -> Tensor:
        """Returns the logits (1, 1, vocab_size).

        Args:
            token: int64 (1, 1).
            window: what JoinedEncoder returns.
            cache_position: int64 (1,), the tokens before.
        """
        places, count = self.get_buffer("places"), self.layers
        seen = (places < cache_position) | (places == self.rows)  # the last is the token's own
        bias = torch.where(seen, 0.0, -torch.inf)[None, None, None]
        cached = [self.get_buffer(f"cache_{index}") for index in range(2 * count)]
        joined = list(window.split(self.size, 2))
        logits, keys, values, _ = self.text_decoder(
            *(token, cache_position[None], bias, cached[:count], cached[count:]),
            *(joined[:count], joined[count:]),
        )
        for rows, row in zip(cached, keys + values, strict=True):
            rows.index_copy_(1, cache_position, row)
        return logits  # type: ignore[no-any-return]
