"""Parakeet CTC (Rekesh et al., 2023): a FastConformer, which reads log-mel features of any length,
and a head that names a token, or none, for each of its states.

Modules carry Hugging Face's names. A sound is computed alone, so nothing is padded, and the masks
of `transformers` have no place here. Factors and the norm of the convolutions are in the weights.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import exporter.models.segment_operators  # noqa: F401  (registers operators)
from exporter.errors import ExportError
from exporter.models.family import Family
from exporter.models.fields import count, flag, refuse
from exporter.models.tensor_layout import Stored

_EPS = 1e-5
_THETA = 10000.0
_BLOCK = 8  # of rows in tables of distances
_HALF = 0.5  # what a feed-forward block adds of its output
_ENCODER = "encoder_config"
_SIZES = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("conv_kernel_size", "subsampling_factor", "subsampling_conv_channels", "num_mel_bins"),
)


@dataclass(frozen=True)
class ParakeetSpec:
    """The fields of its config.json by their names there.

    Attributes:
        blank: the token of states without one.
    """

    vocab_size: int
    blank: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    conv_kernel_size: int
    subsampling_factor: int
    subsampling_conv_channels: int
    num_mel_bins: int
    attention_bias: bool
    convolution_bias: bool
    scale_input: bool
    model_type: str = "parakeet_ctc"
    tie_word_embeddings: bool = False

    @property
    def halvings(self) -> int:
        """Convolutions that leave half of the frames, and of the features."""
        return self.subsampling_factor.bit_length() - 1

    def states_of(self, frames: int) -> int:
        """How many states the encoder makes of so many frames."""
        return -(-frames // self.subsampling_factor)


def spec(config: Mapping[str, Any]) -> ParakeetSpec:
    fields = config.get(_ENCODER)
    if not isinstance(fields, dict):
        raise ExportError(f"{_ENCODER} is missing; use the config.json of the weights.")
    refuse(fields, "hidden_act", "silu")
    refuse(fields, "subsampling_conv_kernel_size", 3)
    refuse(fields, "subsampling_conv_stride", 2)
    sizes: dict[str, Any] = {name: count(fields, name) for name in _SIZES}
    refuse(fields, "num_key_value_heads", sizes["num_attention_heads"])
    flags: dict[str, Any] = {
        name: flag({name: True, **fields}, name)
        for name in ("attention_bias", "convolution_bias", "scale_input")
    }
    vocab_size, factor = count(config, "vocab_size"), sizes["subsampling_factor"]
    for name, divisor in (
        ("hidden_size", "num_attention_heads"),
        ("num_mel_bins", "subsampling_factor"),
    ):
        if sizes[name] % sizes[divisor]:
            raise ExportError(
                f"{name} {sizes[name]} is not a multiple of {divisor} {sizes[divisor]}."
            )
    if factor < 2 or factor & factor - 1:
        raise ExportError(f"subsampling_factor is {factor}; it must be a power of 2 above 1.")
    if sizes["conv_kernel_size"] % 2 == 0:
        raise ExportError(f"conv_kernel_size is {sizes['conv_kernel_size']}; it must be odd.")
    blank = count(config, "pad_token_id", least=0)
    if blank >= vocab_size:
        raise ExportError(f"pad_token_id is {blank}; it must be below vocab_size, {vocab_size}.")
    return ParakeetSpec(vocab_size, blank, **sizes, **flags)


def stored(spec: ParakeetSpec, name: str) -> Stored:
    found = Stored((name,))
    if name.startswith("ctc_head.weight"):
        return found.then(_as_linear)
    part, kind = name.split(".")[-2:]
    if part.startswith("pointwise_conv") and kind == "weight":
        return found.then(_as_linear)
    if part == "linear2":
        return found.times(_HALF)
    if part == "depthwise_conv":
        return _normed(name.removesuffix(f"depthwise_conv.{kind}"), kind, spec)
    if name.startswith("encoder.subsampling.linear"):
        if kind == "weight":
            found = found.then(lambda weight: _by_features(weight, spec))
        return found.times(math.sqrt(spec.hidden_size) if spec.scale_input else 1.0)
    return found


def _as_linear(weight: Tensor) -> Tensor:
    """Of a convolution that sees one row."""
    return weight.flatten(1)


def _by_features(weight: Tensor, spec: ParakeetSpec) -> Tensor:
    """The weight for states of channels side by side, feature by feature."""
    return weight.unflatten(1, (spec.subsampling_conv_channels, -1)).transpose(1, 2).flatten(1)


def _normed(prefix: str, kind: str, spec: ParakeetSpec) -> Stored:
    """A part of the convolution of each channel, with the norm behind it."""
    norm = f"{prefix}norm."

    def scale(weight: Tensor, variance: Tensor) -> Tensor:
        return weight.float() / torch.sqrt(variance.float() + _EPS)

    if kind == "weight":
        return Stored(
            (f"{prefix}depthwise_conv.weight", f"{norm}weight", f"{norm}running_var"),
            lambda w, *parts: w.float() * scale(*parts)[:, None, None],
        )
    names = tuple(f"{norm}{part}" for part in ("weight", "running_var", "running_mean", "bias"))
    if not spec.convolution_bias:
        return Stored(names, lambda w, v, mean, bias: bias.float() - mean.float() * scale(w, v))
    return Stored(
        (f"{prefix}depthwise_conv.bias", *names),
        lambda own, w, v, mean, bias: bias.float() + (own.float() - mean.float()) * scale(w, v),
    )


def is_unread(_: ParakeetSpec, name: str) -> bool:
    return name.endswith("norm.num_batches_tracked")


FAMILY: Family[ParakeetSpec] = Family("parakeet_ctc", spec, stored, is_unread)


class Subsampling(nn.Module):
    """From features to states, fewer by subsampling_factor."""

    def __init__(self, spec: ParakeetSpec) -> None:
        super().__init__()
        channels = spec.subsampling_conv_channels
        layers: list[nn.Module] = [nn.Conv2d(1, channels, 3, 2, 1), nn.ReLU()]
        for _ in range(spec.halvings - 1):
            layers.append(nn.Conv2d(channels, channels, 3, 2, 1, groups=channels))
            layers += [nn.Conv2d(channels, channels, 1), nn.ReLU()]
        self.layers = nn.ModuleList(layers)
        features = spec.num_mel_bins // spec.subsampling_factor
        self.linear = nn.Linear(channels * features, spec.hidden_size)

    def forward(self, features: Tensor) -> Tensor:
        """Maps (1, frames, num_mel_bins) to (1, states, hidden_size)."""
        x = features.unsqueeze(1)
        for layer in self.layers:
            x = layer(x)
        return self.linear(x.permute(0, 2, 3, 1).flatten(2))


class RelativeKeys(nn.Module):
    """What queries are multiplied by for each distance, which is constant: no linear of states."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size, size))

    def forward(self, positions: Tensor, heads: int) -> Tensor:
        """Returns the table of `relative_scores`."""
        return (
            F.linear(positions, self.weight).unflatten(1, (heads, -1)).transpose(0, 1).flatten(0, 1)
        )


class Attention(nn.Module):
    """To states by what they are, and by how far they are away."""

    def __init__(self, spec: ParakeetSpec) -> None:
        super().__init__()
        size, bias = spec.hidden_size, spec.attention_bias
        self.heads = spec.num_attention_heads
        self.head_dim = size // self.heads
        self.q_proj = nn.Linear(size, size, bias=bias)
        self.k_proj = nn.Linear(size, size, bias=bias)
        self.v_proj = nn.Linear(size, size, bias=bias)
        self.o_proj = nn.Linear(size, size, bias=bias)
        self.relative_k_proj = RelativeKeys(size)
        self.bias_u = nn.Parameter(torch.empty(self.heads, self.head_dim))
        self.bias_v = nn.Parameter(torch.empty(self.heads, self.head_dim))

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """
        Args:
            positions: of Encoder.
        """
        query, key, value = (
            proj(x).unflatten(2, (self.heads, self.head_dim))
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        scale, states = self.head_dim**-0.5, x.shape[1]
        table = self.relative_k_proj(positions, self.heads) * scale
        far = torch.ops.thimble.relative_scores(query + self.bias_v, table)
        bias = far.view(1, self.heads, states, states)
        q, k, v = (rows.transpose(1, 2) for rows in (query + self.bias_u, key, value))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale)
        return self.o_proj(out.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, spec: ParakeetSpec) -> None:
        super().__init__()
        size, inner, bias = spec.hidden_size, spec.intermediate_size, spec.attention_bias
        self.linear1 = nn.Linear(size, inner, bias=bias)
        self.linear2 = nn.Linear(inner, size, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear2(F.silu(self.linear1(x)))


class Convolution(nn.Module):
    def __init__(self, spec: ParakeetSpec) -> None:
        super().__init__()
        size, kernel, bias = spec.hidden_size, spec.conv_kernel_size, spec.convolution_bias
        self.pointwise_conv1 = nn.Linear(size, 2 * size, bias=bias)
        self.depthwise_conv = nn.Conv1d(size, size, kernel, padding=kernel // 2, groups=size)
        self.pointwise_conv2 = nn.Linear(size, size, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        x, gate = self.pointwise_conv1(x).chunk(2, dim=-1)
        x = (x * torch.sigmoid(gate)).transpose(1, 2)
        return self.pointwise_conv2(F.silu(self.depthwise_conv(x)).transpose(1, 2))


class EncoderLayer(nn.Module):
    def __init__(self, spec: ParakeetSpec) -> None:
        super().__init__()
        size = spec.hidden_size
        self.feed_forward1 = FeedForward(spec)
        self.self_attn = Attention(spec)
        self.conv = Convolution(spec)
        self.feed_forward2 = FeedForward(spec)
        self.norm_feed_forward1 = nn.LayerNorm(size)
        self.norm_self_att = nn.LayerNorm(size)
        self.norm_conv = nn.LayerNorm(size)
        self.norm_feed_forward2 = nn.LayerNorm(size)
        self.norm_out = nn.LayerNorm(size)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        x = x + self.feed_forward1(self.norm_feed_forward1(x))
        x = x + self.self_attn(self.norm_self_att(x), positions)
        x = x + self.conv(self.norm_conv(x))
        return self.norm_out(x + self.feed_forward2(self.norm_feed_forward2(x)))


class Encoder(nn.Module):
    """
    Args:
        most: states of the longest sound.
    """

    def __init__(self, spec: ParakeetSpec, most: int) -> None:
        super().__init__()
        self.subsampling = Subsampling(spec)
        self.layers = nn.ModuleList(EncoderLayer(spec) for _ in range(spec.num_hidden_layers))
        with torch.device("cpu"):
            positions = distances(spec.hidden_size, most)
        self.register_buffer("positions", positions, persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        """Maps features (1, frames, num_mel_bins) to states (1, states, hidden_size)."""
        x = self.subsampling(features)
        for layer in self.layers:
            x = self.run(layer, x)
        return x

    def run(self, layer: nn.Module, x: Tensor) -> Tensor:
        result: Tensor = layer(x, self.positions)
        return result


def distances(size: int, most: int) -> Tensor:
    """Returns sines and cosines of distances from room - 1 to -room, (2 * room, size).

    Args:
        most: rows; room, a multiple of 8, is at least as many.
    """
    room = -(-most // _BLOCK) * _BLOCK
    powers = torch.arange(0, size, 2, dtype=torch.float32) / size
    at = torch.arange(room - 1, -room - 1, -1, dtype=torch.float32)
    angles = at[:, None] * (1.0 / _THETA**powers)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


class Parakeet(nn.Module):
    """From features to the logits of each state."""

    def __init__(self, spec: ParakeetSpec, most: int) -> None:
        super().__init__()
        self.encoder = Encoder(spec, most)
        self.ctc_head = nn.Linear(spec.hidden_size, spec.vocab_size)

    def forward(self, features: Tensor) -> Tensor:
        """Maps features (1, frames, num_mel_bins) to logits (1, states, vocab_size)."""
        return self.ctc_head(self.encoder(features))
