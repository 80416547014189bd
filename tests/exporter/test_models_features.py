"""Everything that a spec can say, against a plain implementation that shares no line with ours."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from support.decoder_specs import SMALL
from support.proof_family import CONFIG, PROOF
from torch import Tensor
from torch.nn import functional as F

from exporter.capture.program import capture
from exporter.models.decoder import CausalLM
from exporter.models.rotary_spec import (
    DynamicScaling,
    Growth,
    LinearScaling,
    ListedScaling,
    Llama3Scaling,
    LongRopeScaling,
    YarnScaling,
)
from exporter.models.spec import (
    AttentionSpec,
    DecoderSpec,
    MlpSpec,
    Norms,
    RotarySpec,
)

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
STRETCHED = RotarySpec(16, 1e4, Llama3Scaling(8.0, 1.0, 4.0, 32))
LINEAR = RotarySpec(16, 1e4, LinearScaling(4.0))
PARTIAL = RotarySpec(16, 1e4, rotary_dim=12)
LISTED = RotarySpec(16, 1e4, ListedScaling((1.0, 3.0, 2.0, 0.5), 1.3), rotary_dim=8)
YARN = RotarySpec(16, 1e3, YarnScaling(4.0, 16, magnitude=1.2))
GROWN = replace(YARN, growth=Growth(0.3, 8))
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
    "soft caps of scores": mixers({"soft_cap": 0.5}, {}, {"soft_cap": 0.2, "window": 5}),
    "sinks": mixers({"sinks": True}, {"sinks": True, "window": 5, "soft_cap": 0.5}),
    "rotary tables": mixers({}, {"rotary": WIDE}, {"rotary": None}, {"rotary": WIDE}),
    "stretched tables": mixers({"rotary": STRETCHED}, {"rotary": LINEAR}),
    "no rotary table": mixers({"rotary": None}),
    "norms of heads": mixers(
        {"qk_norm": "heads"}, {"qk_norm": "heads", "bias": True, "out_bias": True}
    ),
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
        for name, rotary in (("q", spec.query_rotary or spec.rotary), ("k", spec.rotary)):
            if spec.qk_norm == "rows":
                normed = self.norm(heads[name].flatten(1), at, f"{name}_norm")
                heads[name] = normed.view(heads[name].shape)
            if spec.qk_norm == "heads":
                heads[name] = self.norm(heads[name], at, f"{name}_norm")
            heads[name] = turned(heads[name], rotary)
        scale = spec.head_dim**-0.5 if spec.scale is None else spec.scale
        shared = spec.num_attention_heads // spec.num_key_value_heads
        out = torch.zeros(len(x), spec.num_attention_heads, spec.head_dim, dtype=x.dtype)
        for pos in range(len(x)):
            oldest = 0 if spec.window is None else max(0, pos - spec.window + 1)
            for head in range(spec.num_attention_heads):
                keys = heads["k"][oldest : pos + 1, head // shared]
                values = heads["v"][oldest : pos + 1, head // shared]
                scores = keys @ heads["q"][pos, head] * scale
                if spec.soft_cap is not None:
                    scores = spec.soft_cap * torch.tanh(scores / spec.soft_cap)
                if spec.sinks:  # a position of value 0
                    scores = torch.cat([scores, self.weights[at + "sinks"][head : head + 1]])
                    values = torch.cat([values, torch.zeros_like(values[:1])])
                out[pos, head] = scores.softmax(0) @ values
        return self.linear(out.flatten(1), at + "o_proj")


def turned(heads: Tensor, spec: RotarySpec | None) -> Tensor:
    """Pairs (x_i, x_(i + head_dim / 2)) as complex numbers, each turned by its angle."""
    if spec is None:
        return heads
    half, turning = spec.head_dim // 2, (spec.rotary_dim or spec.head_dim) // 2
    freqs = [stretched(spec.theta ** -(pair / turning), pair, spec) for pair in range(turning)]
    pairs = torch.complex(heads[..., :half], heads[..., half:])
    positions = torch.arange(len(heads), dtype=torch.float64)[:, None]
    angles = positions * torch.tensor(freqs, dtype=torch.float64)
    size = torch.full_like(angles, getattr(spec.scaling, "magnitude", 1.0))
    pairs[..., :turning] *= torch.polar(size, angles)[:, None]
    if spec.growth is not None:
        steps = [1 + pos // spec.growth.length for pos in range(len(heads))]
        pairs *= 1 + spec.growth.beta * torch.tensor(steps).double().log()[:, None, None]
    return torch.cat((pairs.real, pairs.imag), -1)


def stretched(freq: float, pair: int, spec: RotarySpec) -> float:
    match spec.scaling:
        case LinearScaling(factor):
            return freq / factor
        case ListedScaling(factors):
            return freq / factors[pair]
        case YarnScaling(factor, original):
            half = (spec.rotary_dim or spec.head_dim) // 2
            first, last = (
                half * math.log(original / (turns * 2 * math.pi)) / math.log(spec.theta)
                for turns in (32, 1)
            )
            first, last = max(math.floor(first), 0), math.ceil(last)
            part = min(max((pair - first) / (last - first), 0), 1)
            return freq * (1 - part) + freq / factor * part
        case Llama3Scaling(factor, low, high, original):
            wavelength = 2 * math.pi / freq
            if wavelength > original / low:
                return freq / factor
            smooth = (original / wavelength - low) / (high - low)
            return freq if smooth > 1 else (1 - smooth) * freq / factor + smooth * freq
    return freq


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


@pytest.mark.check
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
    assert [layer.self_attn.key_rope for layer in model.model.layers] == [0, 1, None, 1]
    assert len(model.context(3).ropes) == 2


def test_dimensions_are_listed_where_layers_differ() -> None:
    dimensions = SPECS["sizes by layer"].dimensions()
    assert dimensions["num_attention_heads"] == [6, 4] and dimensions["head_dim"] == [16, 12]
    assert dimensions["intermediate_size"] == 80 and dimensions["num_hidden_layers"] == 2


def test_what_the_context_decides_is_settled_for_it() -> None:
    """A window that hides nothing and a growth that never begins cost nothing."""
    spec = mixers({"window": 12, "rotary": YARN, "query_rotary": GROWN})
    near, far = spec.for_context(8), spec.for_context(LENGTH)
    assert (near.layers[0].mixer.window, near.rotary_tables) == (None, (YARN,))
    assert (far.layers[0].mixer.window, far.rotary_tables) == (12, (YARN, GROWN))
    lists = LongRopeScaling((1.0, 2.0), (3.0, 4.0), 24, 1.1)
    table = RotarySpec(4, 1e4, lists)
    assert table.for_context(24) == RotarySpec(4, 1e4, ListedScaling((1.0, 2.0), 1.1))
    assert table.for_context(25) == RotarySpec(4, 1e4, ListedScaling((3.0, 4.0), 1.1))
    table = RotarySpec(4, 1e4, DynamicScaling(3.0, 24))
    assert table.for_context(24) == RotarySpec(4, 1e4)
    assert table.for_context(48) == RotarySpec(4, 1e4 * 4**2)
    for each in (spec, near, far):
        assert each.for_context(8) == near
