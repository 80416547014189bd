"""Everything that a spec can say, against a plain implementation that shares no line with ours."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from support.decoder_specs import SMALL
from support.proof_family import CONFIG, PROOF
from torch import Tensor
from torch.nn import functional as F

from exporter.models.decoder import CausalLM
from exporter.models.spec import (
    AttentionSpec,
    DecoderSpec,
    MlpSpec,
    Norms,
    RopeScaling,
    RotarySpec,
)
from exporter.program import capture

LENGTH = 40
CHUNKS = [1, 2, 7, 1, 11, 18]  # of LENGTH; the third reaches across every window
LAYER = SMALL.layers[0]
ACTIVATIONS: dict[str, Any] = {
    "silu": lambda x: x / (1 + torch.exp(-x)),
    "gelu": lambda x: x * (1 + torch.erf(x / 2**0.5)) / 2,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": lambda x: x.clamp(min=0),
}


def mixers(*changes: dict[str, Any]) -> DecoderSpec:
    """SMALL with a layer for each of these changes to its attention."""
    return replace(
        SMALL, layers=tuple(replace(LAYER, mixer=replace(LAYER.mixer, **c)) for c in changes)
    )


def layers_of(**changes: Any) -> DecoderSpec:
    return replace(SMALL, layers=(replace(LAYER, **changes),) * 2)


WIDE = RotarySpec(16, 1e6)
STRETCHED = RotarySpec(16, 1e4, RopeScaling("llama3", 8.0, 1.0, 4.0, 32))
LINEAR = RotarySpec(16, 1e4, RopeScaling("linear", 4.0))
SPECS: dict[str, DecoderSpec] = {
    "norms behind alone": layers_of(
        mixer_norms=Norms(None, "post_attention_layernorm"),
        feed_forward_norms=Norms(None, "post_feedforward_layernorm"),
    ),
    "four norms": layers_of(
        mixer_norms=Norms("input_layernorm", "post_attention_layernorm"),
        feed_forward_norms=Norms("pre_feedforward_layernorm", "post_feedforward_layernorm"),
    ),
    "no norms": layers_of(mixer_norms=Norms(None), feed_forward_norms=Norms(None)),
    "gelu GLU": layers_of(feed_forward=MlpSpec(80, "gelu")),
    "gelu_tanh GLU": layers_of(feed_forward=MlpSpec(80, "gelu_tanh", bias=True)),
    "relu GLU": layers_of(feed_forward=MlpSpec(80, "relu")),
    "plain silu": layers_of(feed_forward=MlpSpec(80, gated=False)),
    "plain gelu": layers_of(feed_forward=MlpSpec(80, "gelu", gated=False, bias=True)),
    "embedding scale": replace(SMALL, embedding_scale=8.0),
    "soft cap": replace(SMALL, logit_soft_cap=2.0),
    "windows": mixers({"window": 5}, {}, {"window": 1}, {"window": 100}),
    "rotary tables": mixers({}, {"rotary": WIDE}, {"rotary": None}, {"rotary": WIDE}),
    "stretched tables": mixers({"rotary": STRETCHED}, {"rotary": LINEAR}),
    "no rotary table": mixers({"rotary": None}),
    "norms of heads": mixers({"qk_norm": True}, {"qk_norm": True, "bias": True, "out_bias": True}),
    "sizes by layer": mixers(
        {"num_attention_heads": 6, "num_key_value_heads": 1},
        {"head_dim": 12, "rotary": RotarySpec(12), "window": 9},
    ),
    "the proof family": PROOF.spec(CONFIG),
}
each_spec = pytest.mark.parametrize("name", SPECS)


def random_model(spec: DecoderSpec) -> CausalLM:
    """Every parameter random, norms and biases too."""
    torch.manual_seed(0)
    model = CausalLM(spec).requires_grad_(False).eval()
    for name, parameter in model.named_parameters():
        spread = torch.randn_like(parameter)
        centre = 1.0 if "norm" in name else 0.0
        parameter.copy_(centre + (0.3 if parameter.dim() == 1 else 0.15) * spread)
    return model


def tokens_of(spec: DecoderSpec) -> Tensor:
    return torch.randint(spec.vocab_size, (LENGTH,), generator=torch.Generator().manual_seed(1))


class Plain:
    """The same decoder in float64, position by position and head by head."""

    def __init__(self, spec: DecoderSpec, weights: dict[str, Tensor]) -> None:
        self.spec = spec
        self.weights = {name: tensor.double() for name, tensor in weights.items()}

    def logits(self, tokens: Tensor) -> Tensor:
        x = self.weights["model.embed_tokens.weight"][tokens]
        x = x * (1.0 if self.spec.embedding_scale is None else self.spec.embedding_scale)
        for index, layer in enumerate(self.spec.layers):
            at = f"model.layers.{index}."
            before, after = layer.mixer_norms.before, layer.mixer_norms.after
            added = self.attention(self.norm(x, at, before), layer.mixer, at + "self_attn.")
            x = x + self.norm(added, at, after)
            before, after = layer.feed_forward_norms.before, layer.feed_forward_norms.after
            added = self.mlp(self.norm(x, at, before), layer.feed_forward, at + "mlp.")
            x = x + self.norm(added, at, after)
        logits = self.norm(x, "model.", "norm") @ self.weights["lm_head.weight"].T
        cap = self.spec.logit_soft_cap
        return logits if cap is None else torch.tanh(logits / cap) * cap

    def norm(self, x: Tensor, at: str, name: str | None) -> Tensor:
        if name is None:
            return x
        mean = (x * x).mean(-1, keepdim=True)
        return x / (mean + self.spec.rms_norm_eps).sqrt() * self.weights[f"{at}{name}.weight"]

    def linear(self, x: Tensor, name: str) -> Tensor:
        bias = self.weights.get(f"{name}.bias")
        out = x @ self.weights[f"{name}.weight"].T
        return out if bias is None else out + bias

    def mlp(self, x: Tensor, spec: MlpSpec, at: str) -> Tensor:
        act = ACTIVATIONS[spec.activation]
        up = self.linear(x, at + "up_proj")
        inner = act(self.linear(x, at + "gate_proj")) * up if spec.gated else act(up)
        return self.linear(inner, at + "down_proj")

    def attention(self, x: Tensor, spec: AttentionSpec, at: str) -> Tensor:
        heads = {
            name: self.linear(x, f"{at}{name}_proj").view(len(x), -1, spec.head_dim)
            for name in "qkv"
        }
        for name in "qk":
            if spec.qk_norm:
                heads[name] = self.norm(heads[name], at, f"{name}_norm")
            heads[name] = turned(heads[name], spec.rotary)
        shared = spec.num_attention_heads // spec.num_key_value_heads
        out = torch.zeros(len(x), spec.num_attention_heads, spec.head_dim, dtype=x.dtype)
        for pos in range(len(x)):
            oldest = 0 if spec.window is None else max(0, pos - spec.window + 1)
            for head in range(spec.num_attention_heads):
                keys = heads["k"][oldest : pos + 1, head // shared]
                values = heads["v"][oldest : pos + 1, head // shared]
                scores = keys @ heads["q"][pos, head] / spec.head_dim**0.5
                out[pos, head] = scores.softmax(0) @ values
        return self.linear(out.flatten(1), at + "o_proj")


def turned(heads: Tensor, spec: RotarySpec | None) -> Tensor:
    """Pairs (x_i, x_(i + head_dim / 2)) as complex numbers, each turned by its angle."""
    if spec is None:
        return heads
    half = spec.head_dim // 2
    freqs = spec.theta ** -(torch.arange(half, dtype=torch.float64) / half)
    if spec.scaling is not None:
        freqs = torch.tensor([stretched(freq.item(), spec.scaling) for freq in freqs])
    angles = torch.arange(len(heads), dtype=torch.float64)[:, None] * freqs.double()
    pairs = torch.complex(heads[..., :half], heads[..., half:])
    pairs = pairs * torch.polar(torch.ones_like(angles), angles)[:, None]
    return torch.cat((pairs.real, pairs.imag), -1)


def stretched(freq: float, scaling: RopeScaling) -> float:
    wavelength = 2 * torch.pi / freq
    length = scaling.original_max_position_embeddings
    if scaling.rope_type == "linear" or wavelength > length / scaling.low_freq_factor:
        return freq / scaling.factor
    if wavelength < length / scaling.high_freq_factor:
        return freq
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    smooth = (length / wavelength - low) / (high - low)
    return (1 - smooth) * freq / scaling.factor + smooth * freq


@each_spec
def test_eager_is_the_plain_decoder(name: str) -> None:
    model = random_model(SPECS[name])
    tokens = tokens_of(model.config)
    expected = Plain(model.config, dict(model.state_dict())).logits(tokens)
    assert expected.std() > 0.3, "logits too small to tell anything"
    torch.testing.assert_close(model.logits(tokens[None])[0].double(), expected, rtol=0, atol=1e-4)


@each_spec
@torch.no_grad()
def test_over_the_cache_it_is_the_same(name: str) -> None:
    """In chunks; then from the middle again, over what the cache held."""
    model = random_model(SPECS[name])
    tokens = tokens_of(model.config)[None]
    expected = model.logits(tokens)[0]
    model.setup_cache(LENGTH)
    ends = torch.tensor(CHUNKS).cumsum(0).tolist()
    pieces = list(zip([0, *ends], ends, strict=False))
    for start, end in (*pieces, *pieces[2:]):
        ours = model(tokens[:, start:end], torch.tensor([start]))[0]
        torch.testing.assert_close(ours, expected[end - 1], rtol=0, atol=1e-4)


def test_layers_are_the_sum_of_their_blocks() -> None:
    """What quantization relies on, block by block."""
    for spec in SPECS.values():
        model = random_model(spec)
        hidden, context = model.embed(tokens_of(spec)[None]), model.context(LENGTH)
        for layer in model.model.layers:
            x = hidden
            for block in layer.blocks():
                fed = x if block.norm is None else layer.get_submodule(block.norm)(x)
                added = layer.get_submodule(block.module)(fed, context)
                x = x + (added if block.after is None else layer.get_submodule(block.after)(added))
                linears = [path for part in block.parts for path in part.linears]
                within = dict(layer.get_submodule(block.module).named_modules())
                assert {path.removeprefix(f"{block.module}.") for path in linears} == {
                    path for path, module in within.items() if isinstance(module, torch.nn.Linear)
                }
            hidden = layer(hidden, context)
            assert torch.equal(x, hidden)


def test_a_layer_without_a_window_asks_for_none() -> None:
    """So that programs of models without windows are those of before there were any."""
    spec = PROOF.spec(CONFIG)
    program = capture(random_model(spec), 48, 48)
    tokens = tokens_of(spec)[None]
    nodes = program.graph.find_nodes(
        op="call_function", target=torch.ops.thimble.cached_attention.default
    )
    assert [node.args[7:] for node in nodes] == [(9,), (9,), (), (9,)]
    assert [name for name in program.graph_signature.buffers if "rope" in name] == [
        "model.rope_cos",
        "model.rope_sin",
        "model.rope_cos_1",
        "model.rope_sin_1",
    ]
    expected = random_model(spec).logits(tokens)[0, -1]
    run = program.module()
    run(tokens[:, :30], torch.tensor([0]))
    torch.testing.assert_close(
        run(tokens[:, 30:], torch.tensor([30]))[0], expected, atol=1e-4, rtol=0
    )


def test_tables_that_are_equal_are_one() -> None:
    spec = SPECS["rotary tables"]
    assert spec.rotary_tables == (RotarySpec(16), WIDE)
    model = CausalLM(spec)
    assert [layer.self_attn.rope for layer in model.model.layers] == [0, 1, None, 1]
    assert len(model.context(3).ropes) == 2


def test_dimensions_are_listed_where_layers_differ() -> None:
    dimensions = SPECS["sizes by layer"].dimensions()
    assert dimensions["num_attention_heads"] == [6, 4] and dimensions["head_dim"] == [16, 12]
    assert dimensions["intermediate_size"] == 80 and dimensions["num_hidden_layers"] == 2
