"""Moonshine for sound that arrives: an encoder whose states depend on a few rows of sound around
them, and Moonshine's decoder.

Modules carry Hugging Face's names where they do the same. `StreamEncoder` is the program that gets
captured. Nothing in it knows where its rows stand in the sound: a runtime runs it on those that
came, with `rows_before` and `rows_behind` around them, and keeps the states between. What is
learned of the places of states is an input.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import exporter.models.segment_operators  # noqa: F401  (registers operators)
from exporter.errors import ExportError
from exporter.models.cross_attention import CrossProjections
from exporter.models.family import Family
from exporter.models.fields import Fields, count, flag, positive, refuse
from exporter.models.moonshine import ROTATED, Attention, Decoder, EncoderMlp, TextSpec
from exporter.models.rotary_config import rotary
from exporter.models.tensor_layout import Stored
from quant.weight_type import INT8

FRAMES = 4  # of a row: the strides of both convolutions
_KERNEL, _STRIDE = 5, 2
_FRAME_EPS = 1e-6
_FRAME_MS, _RATE, _MOST_RATE = 5, 16000, 1 << 16
_LOG_SCALE = "log_scale"
_RENAMED = {
    "linear": "model.encoder.embedder.linear",
    "conv1": "model.encoder.embedder.conv1",
    "conv2": "model.encoder.embedder.conv2",
    "proj": "model.decoder.proj",
    "pos_emb": "model.decoder.pos_emb",
}


@dataclass(frozen=True)
class MoonshineStreamingSpec(TextSpec):
    """The fields of its config.json by their names there, those of `encoder_config` included.

    Attributes:
        frame: samples of one.
        sliding_windows: of each layer of the encoder, how many states up to its own one sees, and
            how many behind it.
    """

    encoder_hidden_size: int
    encoder_intermediate_size: int
    encoder_num_hidden_layers: int
    encoder_num_attention_heads: int
    sample_rate: int
    frame: int
    sliding_windows: tuple[tuple[int, int], ...]
    tie_word_embeddings: bool
    model_type: str = "moonshine_streaming"

    @property
    def num_hidden_layers(self) -> int:
        return self.encoder_num_hidden_layers + self.decoder_num_hidden_layers

    @property
    def row(self) -> int:
        """Samples of a row, of which a state is made."""
        return FRAMES * self.frame

    @property
    def rows_before(self) -> int:
        """Rows before its own that a state depends on."""
        reach = _KERNEL - 1 + _STRIDE * (_KERNEL - 1)  # frames of both convolutions
        return -(-reach // FRAMES) + sum(seen - 1 for seen, _ in self.sliding_windows)

    @property
    def rows_behind(self) -> int:
        return sum(behind for _, behind in self.sliding_windows)


def spec(config: Mapping[str, Any]) -> MoonshineStreamingSpec:
    inner = config.get("encoder_config")
    if not isinstance(inner, dict):
        raise ExportError("encoder_config is missing; use the config.json that was published.")
    refuse(config, "hidden_act", "silu")
    refuse(inner, "hidden_act", "gelu")
    for fields in (config, inner):
        refuse(fields, "attention_bias", False)
        heads, size = (count(fields, name) for name in ("num_attention_heads", "hidden_size"))
        refuse(fields, "num_key_value_heads", heads)
        if size % heads:
            raise ExportError(
                f"hidden_size {size} is not a multiple of num_attention_heads {heads}."
            )
        refuse(fields, "head_dim", size // heads)
    rate = count({"sample_rate": _RATE, **inner}, "sample_rate")
    frame = round(rate * positive({"frame_ms": _FRAME_MS, **inner}, "frame_ms") / 1000)
    if rate > _MOST_RATE or not 1 <= frame <= rate:
        raise ExportError(f"Frames of {frame} samples at {rate} per second are not supported.")
    of_head = count(config, "hidden_size") // count(config, "num_attention_heads")
    return MoonshineStreamingSpec(
        vocab_size=count(config, "vocab_size"),
        hidden_size=count(config, "hidden_size"),
        intermediate_size=count(config, "intermediate_size"),
        decoder_num_hidden_layers=count(config, "num_hidden_layers"),
        decoder_num_attention_heads=count(config, "num_attention_heads"),
        max_position_embeddings=count(config, "max_position_embeddings"),
        decoder_rope=rotary({"rope_theta": 10000.0, **config}, of_head),
        encoder_hidden_size=count(inner, "hidden_size"),
        encoder_intermediate_size=count(inner, "intermediate_size"),
        encoder_num_hidden_layers=count(inner, "num_hidden_layers"),
        encoder_num_attention_heads=count(inner, "num_attention_heads"),
        sample_rate=rate,
        frame=frame,
        sliding_windows=_windows(inner),
        tie_word_embeddings=flag(config, "tie_word_embeddings"),
    )


def _windows(fields: Fields) -> tuple[tuple[int, int], ...]:
    """transformers counts what is behind with the state itself; 0 is none, as 1 is."""
    layers, pairs = count(fields, "num_hidden_layers"), fields.get("sliding_windows")
    if (
        not isinstance(pairs, list)
        or len(pairs) != layers
        or not all(
            isinstance(pair, list | tuple)
            and len(pair) == 2
            and all(type(one) is int and 0 <= one < 1 << 20 for one in pair)
            and pair[0] > 0
            for pair in pairs
        )
    ):
        raise ExportError(
            f"sliding_windows is {pairs!r}; it must be two whole numbers for each of {layers} "
            "layers, of which the first is at least 1."
        )
    return tuple((seen, max(behind - 1, 0)) for seen, behind in pairs)


def stored(spec: MoonshineStreamingSpec, name: str) -> Stored:
    part, *rest = name.split(".")
    if part != "encoder":
        found = Stored((name if part == "proj_out" else f"model.{name}",))
        if part == "decoder" and name.split(".")[-2] in ROTATED and "self_attn" in name:
            return found.from_pairs(spec.decoder_rope.head_dim, spec.decoder_rope.rotated)
        return found
    if rest == [_LOG_SCALE]:
        return Stored(("model.encoder.embedder.comp.log_k",))
    if rest[0] in _RENAMED:
        return Stored((".".join((_RENAMED[rest[0]], *rest[1:])),))
    if rest == ["layer_norm", "weight"]:
        return Stored(("model.encoder.final_norm.gamma",)).plus_one()
    if rest[-2].endswith("layernorm"):
        return Stored((f"model.{name.removesuffix('weight')}gamma",)).plus_one()
    return Stored((f"model.{name}",))


def is_unread(spec: MoonshineStreamingSpec, name: str) -> bool:
    return spec.tie_word_embeddings and name == "proj_out.weight"


FAMILY: Family[MoonshineStreamingSpec] = Family("moonshine_streaming", spec, stored, is_unread)


def compress(sound: Tensor, frame: int, log_scale: Tensor) -> Tensor:
    """What the encoder reads of sound (rows, ..., FRAMES * frame): frames without their mean, over
    their root mean square, under asinh. A frame that the sound's end cuts is zeros."""
    frames = sound.unflatten(-1, (FRAMES, frame))
    normed = F.layer_norm(frames, (frame,), eps=_FRAME_EPS)
    return torch.asinh(log_scale.exp() * normed).flatten(-2)


class EncoderLayer(nn.Module):
    def __init__(self, size: int, heads: int, inner: int, window: tuple[int, int]) -> None:
        super().__init__()
        self.self_attn = Attention(size, heads)
        self.mlp = EncoderMlp(size, inner)
        self.input_layernorm = nn.LayerNorm(size, bias=False)
        self.post_attention_layernorm = nn.LayerNorm(size, bias=False)
        self.window, self.scale = window, (size // heads) ** -0.5

    def forward(self, x: Tensor) -> Tensor:
        attention, rows = self.self_attn, self.input_layernorm(x)
        heads = (
            attention.heads_of(proj(rows))
            for proj in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        out = torch.ops.thimble.segment_attention(*heads, self.scale, *self.window)
        x = x + attention.o_proj(out.flatten(2))
        return x + self.mlp(self.post_attention_layernorm(x))


class Encoder(nn.Module):
    def __init__(self, spec: MoonshineStreamingSpec) -> None:
        super().__init__()
        size, text_size = spec.encoder_hidden_size, spec.hidden_size
        self.frame = spec.frame
        self.log_scale = nn.Parameter(torch.zeros(()))
        self.linear = nn.Linear(spec.frame, size, bias=False)
        self.conv1: nn.Module = nn.Conv1d(size, 2 * size, _KERNEL, stride=_STRIDE)
        self.conv2: nn.Module = nn.Conv1d(2 * size, size, _KERNEL, stride=_STRIDE)
        self.layers = nn.ModuleList(
            EncoderLayer(
                size, spec.encoder_num_attention_heads, spec.encoder_intermediate_size, window
            )
            for window in spec.sliding_windows
        )
        self.layer_norm = nn.LayerNorm(size, bias=False)
        self.pos_emb = nn.Embedding(spec.max_position_embeddings, size)
        self.proj = nn.Linear(size, text_size, bias=False) if size != text_size else nn.Identity()

    def forward(self, sound: Tensor, positions: Tensor) -> Tensor:
        """Maps compress()ed rows of sound (1, rows, FRAMES * frame), and what is learned of the
        places of their states (1, rows, encoder_hidden_size), to states (1, rows, hidden_size)."""
        x = self.embed(sound)
        for layer in self.layers:
            x = self.run(layer, x)
        return self.proj(self.layer_norm(x) + positions)

    def run(self, layer: nn.Module, x: Tensor) -> Tensor:
        result: Tensor = layer(x)
        return result

    def finish(self, x: Tensor) -> Tensor:
        """Returns what the decoder attends to, of the last layer's output of a whole sound."""
        return self.proj(self.layer_norm(x) + self.pos_emb.weight[: x.shape[1]])

    def embed(self, sound: Tensor) -> Tensor:
        """Returns what the first layer reads."""
        frames = sound.unflatten(2, (FRAMES, self.frame)).flatten(1, 2)
        x = F.silu(self.linear(frames)).transpose(1, 2)
        before = _KERNEL - 1, 0
        x = F.silu(self.conv1(F.pad(x, before)))
        return self.conv2(F.pad(x, before)).transpose(1, 2)


class MoonshineStreaming(nn.Module):
    """All of its weights."""

    INTEGER_CONVOLUTIONS = "conv1", "conv2"  # of the encoder: those that integers may store
    STEP_TYPE = INT8  # of 8 bits, what each token reads

    def __init__(self, spec: MoonshineStreamingSpec) -> None:
        super().__init__()
        self.encoder = Encoder(spec)
        self.decoder = Decoder(spec)
        self.proj_out: nn.Module | None = None  # the decoder's table of tokens
        if not spec.tie_word_embeddings:
            self.proj_out = nn.Linear(spec.hidden_size, spec.vocab_size, bias=False)


class StreamEncoder(CrossProjections):
    """From rows of sound to the keys and values of each layer of the decoder."""

    def __init__(self, model: MoonshineStreaming) -> None:
        super().__init__(model.encoder, model.decoder.layers)

    def forward(self, sound: Tensor, positions: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        return self.project(self.encoder(sound, positions))
