"""Random models of every family, as transformers builds them and as we do."""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from support.families import FAMILIES
from support.family_data import ACTIVATIONS, EITHER, Fields
from support.headless_models import register as register_headless_models
from torch import Tensor

from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec, get_family

transformers = pytest.importorskip("transformers")
register_headless_models()

LENGTH = 40  # past every window, every original context and any piece boundary
PIECES = ((0, 1), (1, 3), (3, 10), (10, LENGTH))  # calls over a cache
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


@dataclass(frozen=True)
class Case:
    """One random model: its model_type and what its config adds to SHAPE."""

    model_type: str
    label: str
    fields: Fields = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.model_type}-{self.label}"


def case_of(model_type: str, label: str = "") -> Case:
    """One of a family's listed models; the first if no label is given."""
    cases = FAMILIES[model_type].cases
    label = label or next(iter(cases))
    return Case(model_type, label, cases[label])


CASES = [case_of(name, label) for name, data in FAMILIES.items() for label in data.cases]


def random_case(model_type: str, seed: int) -> Case:
    """A model of four layers, its features on and off at random."""
    data, draw = FAMILIES[model_type], random.Random(f"{model_type} {seed}")
    fields: dict[str, Any] = {
        "num_hidden_layers": 4,
        "num_key_value_heads": draw.choice([1, 2, 3, 6]),
        "rms_norm_eps": draw.choice([1e-6, 1e-3]),
        "tie_word_embeddings": draw.choice(EITHER),
        "max_position_embeddings": draw.choice([24, 64]),
        "hidden_act": draw.choice(ACTIVATIONS),
    }
    for name, values in data.drawn.items():
        drawn = draw.choice(values)
        fields |= {name: drawn} if isinstance(name, str) else dict(zip(name, drawn, strict=True))
    return Case(model_type, f"random-{seed}", fields | data.rotary(draw, fields.get("head_dim", 8)))


def reference_model(case: Case) -> Any:
    """A model of transformers whose every parameter is random, norms and biases too."""
    return model_of(transformers.AutoConfig.for_model(case.model_type, **{**SHAPE, **case.fields}))


def model_of(config: Any) -> Any:
    """The same of a config of transformers."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="eager"
    ).eval()
    minus_one = FAMILIES[config.model_type].norms_from_one
    for name, buffer in model.named_buffers():
        if name.endswith("layer_scalar"):
            buffer.fill_(0.7 + 0.3 * torch.rand(()))
    for name, parameter in model.named_parameters():
        spread = (0.3 if parameter.dim() == 1 else 0.15) * torch.randn_like(parameter)
        centre = 0.0 if minus_one and "linear_attn" not in name else 1.0
        parameter.data = spread + (centre if "norm" in name else 0.0)
    return model


def tokens_of(model: Any, batch: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(model.config.vocab_size, (batch, LENGTH), generator=generator)


def our_model(reference: Any, fields: dict[str, Any] | None = None) -> CausalLM:
    """The same model as we build it, with the same weights; None: of its config's own fields."""
    fields = fields or reference.config.to_dict()
    spec, family = decoder_spec(fields), get_family(fields["model_type"])
    model, tensors = CausalLM(spec).eval(), reference.state_dict()
    ours = {}
    for name in model.state_dict():
        stored = family.stored(spec, name).among(tensors)
        ours[name] = stored.make(*(tensors[source] for source in stored.names))
    model.load_state_dict(ours)
    return model.requires_grad_(False)


def assert_same(ours: Tensor, reference: Tensor) -> None:
    assert reference.abs().max() > 0.5, "logits too small to tell anything"
    torch.testing.assert_close(ours, reference, rtol=0, atol=1e-4)
