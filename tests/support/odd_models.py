"""Small random decoders of blocks that no architecture of today puts together: for the CPU
delegate, which must take each of them in one call."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.nn import functional as F

import exporter.capture.program  # noqa: F401  (defines torch.ops.thimble.cached_attention)

VOCABULARY, WIDTH, HEADS, KEY_HEADS, HEAD_DIM = 50, 48, 4, 2, 16
CONTEXT = 40
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": F.relu,
}


@dataclass(frozen=True)
class OddLayer:
    """
    Attributes:
        norms: before the block, behind it, or both.
        kind: of these and of head_norm: "rms", "layer" (with a bias) or "plain_layer" (without).
        head_norm: of queries and keys: with a weight, without, or none.
        value_norm: values are normed too, without a weight.
        late_norm: heads are normed behind the rotation.
        rope: the number of the rotary tables; None for none.
        window: that attention sees; None for all.
        soft_cap, sinks: of its scores, as in `AttentionSpec`.
        gated: an MLP with a gate, else a plain one.
        output_gate: attention's output is multiplied by a sigmoid of the input.
        parallel: both blocks read the same rows.
    """

    norms: str = "before"
    kind: str = "rms"
    head_norm: str = "none"
    value_norm: bool = False
    late_norm: bool = False
    rope: int | None = 0
    window: int | None = None
    soft_cap: float | None = None
    sinks: bool = False
    gated: bool = True
    activation: str = "silu"
    output_gate: bool = False
    parallel: bool = False
    bias: bool = False


@dataclass(frozen=True)
class OddDecoder:
    layers: tuple[OddLayer, ...]
    embedding_scale: float | None = None
    logit_cap: float | None = None
    plain_final_norm: bool = False
    scaled_streams: bool = False


def random_decoder(seed: int) -> OddDecoder:
    """Two layers of which each is drawn."""
    draw = random.Random(seed)

    def layer() -> OddLayer:
        return OddLayer(
            norms=draw.choice(["before", "behind", "both"]),
            kind=draw.choice(["rms", "layer", "plain_layer"]),
            head_norm=draw.choice(["none", "weight", "plain"]),
            value_norm=draw.random() < 0.3,
            late_norm=draw.random() < 0.3,
            rope=draw.choice([0, 1, None]),
            window=draw.choice([None, 3, 7]),
            soft_cap=draw.choice([None, 0.5]),
            sinks=draw.random() < 0.3,
            gated=draw.random() < 0.6,
            activation=draw.choice(list(ACTIVATIONS)),
            output_gate=draw.random() < 0.3,
            parallel=draw.random() < 0.3,
            bias=draw.random() < 0.3,
        )

    return OddDecoder(
        (layer(), layer()),
        embedding_scale=draw.choice([None, 6.5]),
        logit_cap=draw.choice([None, 2.0]),
        plain_final_norm=draw.random() < 0.3,
        scaled_streams=draw.random() < 0.3,
    )


class Norm(nn.Module):
    """As exporter.models has it; without a weight where there are none to multiply."""

    def __init__(self, size: int | None) -> None:
        super().__init__()
        self.weight = None if size is None else nn.Parameter(1 + 0.3 * torch.randn(size))

    def forward(self, x: Tensor) -> Tensor:
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        return normed if self.weight is None else normed * self.weight


def norm_of(kind: str, size: int) -> nn.Module:
    """A norm with a weight, whose kind `OddLayer` names."""
    if kind == "rms":
        return Norm(size)
    norm = nn.LayerNorm(size, eps=1e-5, bias=kind == "layer")
    for parameter in norm.parameters():
        parameter.data += 0.3 * torch.randn(size)
    return norm


class OddAttention(nn.Module):
    k_cache: Tensor
    v_cache: Tensor

    def __init__(self, layer: OddLayer) -> None:
        super().__init__()
        self.layer = layer
        sizes = HEADS * HEAD_DIM, KEY_HEADS * HEAD_DIM, KEY_HEADS * HEAD_DIM
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(WIDTH, n, layer.bias) for n in sizes)
        self.o_proj = nn.Linear(HEADS * HEAD_DIM, WIDTH, layer.bias)
        self.q_norm, self.k_norm = (
            norm_of(layer.kind, HEAD_DIM) if layer.head_norm == "weight" else Norm(None)
            for _ in range(2)
        )
        self.v_norm = Norm(None)
        self.sinks = nn.Parameter(torch.randn(HEADS)) if layer.sinks else None
        if layer.output_gate:
            self.g_proj = nn.Linear(WIDTH, HEADS * HEAD_DIM)
        for name in ("k_cache", "v_cache"):
            zeros = torch.zeros(1, CONTEXT, KEY_HEADS, HEAD_DIM)
            self.register_buffer(name, zeros, persistent=False)

    def forward(self, x: Tensor, ropes: list[tuple[Tensor, Tensor]], start_pos: int) -> Tensor:
        heads = (*x.shape[:2], -1, HEAD_DIM)
        q, k, v = (proj(x).view(heads) for proj in (self.q_proj, self.k_proj, self.v_proj))
        steps = [self.normed, lambda q, k: self.rotated(q, k, ropes)]
        for step in reversed(steps) if self.layer.late_norm else steps:
            q, k = step(q, k)
        if self.layer.value_norm:
            v = self.v_norm(v)
        scale, layer = HEAD_DIM**-0.5, self.layer
        out = torch.ops.thimble.cached_attention(
            *(q, k, v, self.k_cache, self.v_cache, start_pos, scale),
            *(layer.window, layer.soft_cap, self.sinks),
        ).flatten(2)
        if self.layer.output_gate:
            out = out * torch.sigmoid(self.g_proj(x))
        return self.o_proj(out)

    def normed(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return (q, k) if self.layer.head_norm == "none" else (self.q_norm(q), self.k_norm(k))

    def rotated(
        self, q: Tensor, k: Tensor, ropes: list[tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        if self.layer.rope is None:
            return q, k
        cos, sin = ropes[self.layer.rope]
        swapped = [torch.cat(x.chunk(2, dim=-1)[::-1], dim=-1) for x in (q, k)]
        return q * cos + swapped[0] * sin, k * cos + swapped[1] * sin


class OddMLP(nn.Module):
    def __init__(self, layer: OddLayer) -> None:
        super().__init__()
        self.act = ACTIVATIONS[layer.activation]
        if layer.gated:
            self.gate_proj = nn.Linear(WIDTH, 36, layer.bias)
        self.up_proj = nn.Linear(WIDTH, 36, layer.bias)
        self.down_proj = nn.Linear(36, WIDTH, layer.bias)
        self.gated = layer.gated

    def forward(self, x: Tensor) -> Tensor:
        if self.gated:
            return self.down_proj(self.act(self.gate_proj(x)) * self.up_proj(x))
        return self.down_proj(self.act(self.up_proj(x)))


class OddBlocks(nn.Module):
    """One layer."""

    def __init__(self, layer: OddLayer, scale: float | None) -> None:
        super().__init__()
        self.layer = layer
        self.scale = scale
        self.self_attn, self.mlp = OddAttention(layer), OddMLP(layer)
        before, behind = layer.norms != "behind", layer.norms != "before"
        self.before, self.behind = (
            nn.ModuleList(
                norm_of(layer.kind, WIDTH) if present else nn.Identity() for _ in range(2)
            )
            for present in (before, behind)
        )

    def forward(self, x: Tensor, ropes: list[tuple[Tensor, Tensor]], start_pos: int) -> Tensor:
        attended = self.behind[0](self.self_attn(self.before[0](x), ropes, start_pos))
        if self.scale is not None:
            attended = attended * self.scale
        if self.layer.parallel:
            return x + attended + self.behind[1](self.mlp(self.before[1](x)))
        x = x + attended
        return x + self.behind[1](self.mlp(self.before[1](x)))


class OddModel(nn.Module):
    """Like exporter's CausalLM: tokens (1, seq_len) and a position to logits (1, vocabulary)."""

    def __init__(self, decoder: OddDecoder) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.decoder = decoder
        self.embed_tokens = nn.Embedding(VOCABULARY, WIDTH)
        scale = 0.4 if decoder.scaled_streams else None
        self.layers = nn.ModuleList(OddBlocks(layer, scale) for layer in decoder.layers)
        self.norm = Norm(None if decoder.plain_final_norm else WIDTH)
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        for index, base in enumerate((100.0, 10000.0)):
            freqs = base ** -(torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
            angles = torch.outer(torch.arange(CONTEXT), freqs).unsqueeze(1)
            cos, sin = angles.cos(), angles.sin()
            self.register_buffer(f"cos_{index}", torch.cat((cos, cos), -1), persistent=False)
            self.register_buffer(f"sin_{index}", torch.cat((-sin, sin), -1), persistent=False)
        self.eval().requires_grad_(False)

    def forward(self, tokens: Tensor, input_pos: Tensor) -> Tensor:
        seq_len = tokens.shape[1]
        start_pos = input_pos.item()
        torch._check(start_pos >= 0)
        torch._check(start_pos + seq_len <= CONTEXT)
        tables = [(self.cos_0, self.sin_0), (self.cos_1, self.sin_1)]
        ropes = [
            (cos.narrow(0, start_pos, seq_len), sin.narrow(0, start_pos, seq_len))
            for cos, sin in tables
        ]
        x = self.embed_tokens(tokens)
        if self.decoder.embedding_scale is not None:
            x = x * self.decoder.embedding_scale
        for layer in self.layers:
            x = layer(x, ropes, start_pos)
        logits = self.lm_head(self.norm(x[:, -1]))
        cap = self.decoder.logit_cap
        return logits if cap is None else cap * torch.tanh(logits / cap)


def captured_odd(decoder: OddDecoder) -> ExportedProgram:
    """The program of a decoder with random weights."""
    example = torch.zeros(1, 3, dtype=torch.long), torch.zeros(1, dtype=torch.long)
    dims = ({1: Dim("seq_len", min=1, max=CONTEXT)}, None)
    return export(OddModel(decoder), example, dynamic_shapes=dims)
