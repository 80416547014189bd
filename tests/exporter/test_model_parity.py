"""The decoder computes what Hugging Face's implementation of each architecture computes."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.proof_family import CONFIG, PROOF
from torch import Tensor

from exporter.checkpoint import open_checkpoint
from exporter.errors import ExportError
from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec

transformers = pytest.importorskip("transformers")

LENGTH = 40  # past the two shortest wavelengths and any piece boundary
SHAPE: dict[str, Any] = dict(
    vocab_size=199,
    hidden_size=48,
    intermediate_size=88,
    num_hidden_layers=3,
    num_attention_heads=6,
    num_key_value_heads=2,
    max_position_embeddings=64,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=None,
)
LLAMA3_ROPE = dict(
    rope_type="llama3",
    rope_theta=10000.0,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=32,
)
LINEAR_ROPE = dict(rope_type="linear", rope_theta=5000.0, factor=4.0)


@dataclass(frozen=True)
class Case:
    """One random model: the Hugging Face class prefix and what its config adds to SHAPE."""

    architecture: str
    label: str
    fields: dict[str, Any] = field(default_factory=dict)


CASES = [
    Case("Llama", "plain"),
    Case("Llama", "tied", dict(tie_word_embeddings=True)),
    Case("Llama", "llama3-rope", dict(rope_parameters=LLAMA3_ROPE)),
    Case("Llama", "linear-rope", dict(rope_parameters=LINEAR_ROPE)),
    Case("Llama", "theta", dict(rope_parameters=dict(rope_type="default", rope_theta=5e5))),
    Case("Llama", "biases", dict(attention_bias=True, mlp_bias=True)),
    Case("Llama", "gelu", dict(hidden_act="gelu")),
    Case("Llama", "gelu-tanh", dict(hidden_act="gelu_pytorch_tanh")),
    Case("Llama", "relu", dict(hidden_act="relu")),
    Case("Llama", "own-head-dim", dict(head_dim=20)),
    Case("Llama", "one-key-head", dict(num_key_value_heads=1)),
    Case("Llama", "no-gqa", dict(num_key_value_heads=6, rms_norm_eps=1e-3)),
    Case("Mistral", "window", dict(sliding_window=LENGTH)),
    Case("Mistral", "no-window", dict(sliding_window=None, head_dim=12)),
    Case("Qwen2", "plain"),
    Case("Qwen2", "tied", dict(tie_word_embeddings=True, sliding_window=4)),
    Case("Qwen2", "window", dict(use_sliding_window=True, sliding_window=50, max_window_layers=1)),
    Case("Qwen3", "plain", dict(head_dim=16)),
    Case("Qwen3", "tied-biases", dict(tie_word_embeddings=True, attention_bias=True, head_dim=8)),
    Case("SmolLM3", "interval", dict(no_rope_layer_interval=2)),
    Case("SmolLM3", "listed", dict(no_rope_layers=[0, 1, 1], attention_bias=True, mlp_bias=True)),
    Case("SmolLM3", "untied", dict(tie_word_embeddings=False)),
]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.architecture}-{c.label}")


def reference_model(case: Case) -> Any:
    """A Hugging Face model whose every parameter is random, norms and biases too."""
    config = getattr(transformers, f"{case.architecture}Config")(**{**SHAPE, **case.fields})
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    model = getattr(transformers, f"{case.architecture}ForCausalLM")(config).eval()
    for name, parameter in model.named_parameters():
        spread = torch.randn_like(parameter)
        centre = 1.0 if "norm" in name else 0.0
        parameter.data = centre + (0.3 if parameter.dim() == 1 else 0.15) * spread
    return model


def tokens_of(model: Any, batch: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(model.config.vocab_size, (batch, LENGTH), generator=generator)


def our_model(reference: Any) -> CausalLM:
    model = CausalLM(decoder_spec(reference.config.to_dict())).eval()
    model.load_state_dict(reference.state_dict())
    return model


def assert_same(ours: Tensor, reference: Tensor) -> None:
    assert reference.abs().max() > 0.5, "logits too small to tell anything"
    torch.testing.assert_close(ours, reference, rtol=0, atol=1e-4)


@each_case
@torch.no_grad()
def test_logits_equal(case: Case) -> None:
    reference = reference_model(case)
    tokens = tokens_of(reference, batch=2)
    assert_same(our_model(reference).logits(tokens), reference(tokens).logits)


@each_case
@torch.no_grad()
def test_forward_in_pieces_equals(case: Case) -> None:
    """Pieces of 1, 2, 7 and the rest; then the last two again, over what the cache held."""
    reference = reference_model(case)
    tokens = tokens_of(reference)
    expected = reference(tokens).logits[0]
    model = our_model(reference)
    model.setup_cache(LENGTH)
    for start, end in ((0, 1), (1, 3), (3, 10), (10, LENGTH), (3, 10), (10, LENGTH)):
        ours = model(tokens[:, start:end], torch.tensor([start]))
        assert_same(ours[0], expected[end - 1])


@each_case
@torch.no_grad()
def test_what_transformers_saves_is_read_back(case: Case, tmp_path: Path) -> None:
    """`save_pretrained` to `open_checkpoint`: config.json and safetensors, streamed in."""
    reference = reference_model(case)
    reference.save_pretrained(tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    with torch.device("meta"):
        model = CausalLM(checkpoint.config).eval()
    checkpoint.check(model)
    checkpoint.load_into(model, "")
    assert not any(parameter.is_meta for parameter in model.parameters())
    tokens = tokens_of(reference)
    assert_same(model.logits(tokens), reference(tokens).logits)


def test_the_context_ends_where_the_window_does() -> None:
    fields = {**SHAPE, "model_type": "mistral", "sliding_window": 16}
    assert decoder_spec(fields).context_limit == 16
    assert decoder_spec({**fields, "sliding_window": None}).context_limit == 64


@torch.no_grad()
def test_past_the_window_the_answers_would_differ() -> None:
    """Why `context_limit` matters: full attention is another function beyond the window."""
    reference = reference_model(Case("Mistral", "short", dict(sliding_window=16)))
    tokens = tokens_of(reference)
    ours, expected = our_model(reference).logits(tokens), reference(tokens).logits
    assert_same(ours[:, :16], expected[:, :16])
    assert (ours[:, 16:] - expected[:, 16:]).abs().max() > 1e-2


@torch.no_grad()
def test_the_blocks_make_up_gemma_3() -> None:
    """No family of ours says so yet; the spec is the proof family's, with norms of heads."""
    config = transformers.Gemma3TextConfig(
        **{**SHAPE, "num_hidden_layers": 4},
        head_dim=16,
        query_pre_attn_scalar=16,
        layer_types=["sliding_attention"] * 2 + ["full_attention", "sliding_attention"],
        sliding_window=9,
        final_logit_softcapping=5.0,
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            "full_attention": {"rope_type": "default", "rope_theta": 1e6},
        },
    )
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    reference = transformers.Gemma3ForCausalLM(config).eval()
    for parameter in reference.parameters():
        parameter.copy_((0.3 if parameter.dim() == 1 else 0.15) * torch.randn_like(parameter))
    fields = {**CONFIG, **SHAPE, "num_hidden_layers": 4, "head_dim": 16}
    spec = PROOF.spec({**fields, "tie_word_embeddings": True})
    layers = [replace(x, mixer=replace(x.mixer, qk_norm=True)) for x in spec.layers]
    spec = replace(spec, layers=tuple(layers))
    model, tensors = CausalLM(spec).eval(), reference.state_dict()
    for name in model.state_dict():
        tensors[name] = PROOF.stored(spec, name).make(tensors[name])
    model.load_state_dict(tensors)
    tokens = tokens_of(reference, batch=2)
    assert_same(model.logits(tokens), reference(tokens).logits)


def test_an_architecture_next_door_is_refused() -> None:
    fields = transformers.Qwen2MoeConfig().to_dict()
    with pytest.raises(ExportError, match="^model_type 'qwen2_moe' is not supported"):
        decoder_spec(fields)
