"""The decoder computes what transformers' implementation of each architecture computes."""

from pathlib import Path

import pytest
import torch
from support.families import FAMILIES
from support.families.qwen3_5_text import QWEN3_5
from support.family_models import (
    CASES,
    LENGTH,
    PIECES,
    SHAPE,
    Case,
    assert_same,
    our_model,
    random_case,
    reference_model,
    tokens_of,
)
from support.family_parity import row
from support.family_table import README, family_table
from support.tiers import checked

from exporter.checkpoint import open_checkpoint
from exporter.errors import ExportError
from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec, family_names

each_case = pytest.mark.parametrize("case", CASES, ids=str)


@each_case
@torch.no_grad()
def test_logits_equal(case: Case) -> None:
    """In one call; and over the cache, in pieces, the last two of them once more; where a state is
    kept, all of them."""
    reference = reference_model(case)
    tokens = tokens_of(reference, batch=2)
    expected = reference(tokens).logits
    model = our_model(reference)
    assert_same(model.logits(tokens), expected)
    if model.config.original_context is not None:  # all calls by the table of the whole text
        model.config = model.config.for_context(LENGTH)
    model.setup_cache(LENGTH)
    recurrent = len(model.config.attentions) < model.config.num_hidden_layers
    for start, end in (*PIECES, *PIECES[0 if recurrent else 2 :]):
        ours = model(tokens[:1, start:end], torch.tensor([start]))
        assert_same(ours[0], expected[0, end - 1])


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


@torch.no_grad()
def test_the_delta_rule_over_more_positions_than_are_computed_at_once() -> None:
    fields = {**QWEN3_5, "num_hidden_layers": 4, "max_position_embeddings": 200}
    reference = reference_model(Case("qwen3_5_text", "long", fields))
    tokens = torch.randint(199, (2, 150), generator=torch.Generator().manual_seed(4))
    expected, model = reference(tokens).logits, our_model(reference)
    assert_same(model.logits(tokens), expected)
    model.setup_cache(150)
    for start, end in ((0, 100), (100, 101), (101, 150)):
        ours = model(tokens[:1, start:end], torch.tensor([start]))
        assert_same(ours[0], expected[0, end - 1])


@pytest.mark.parametrize("model_type", ["deepseek_v3", "qwen3_5_moe_text"])
def test_an_architecture_next_door_is_refused(model_type: str) -> None:
    with pytest.raises(ExportError, match=f"^model_type '{model_type}' is not supported"):
        decoder_spec({**SHAPE, "model_type": model_type})


THIRD = list(FAMILIES)[::3]


@pytest.mark.parametrize(
    "model_type", [*THIRD, *checked(name for name in FAMILIES if name not in THIRD)]
)
@torch.no_grad()
def test_features_at_random(model_type: str) -> None:
    for seed in range(4):
        reference = reference_model(random_case(model_type, seed))
        tokens = tokens_of(reference)
        assert_same(our_model(reference).logits(tokens), reference(tokens).logits)


def test_every_family_has_data_and_a_row_of_the_readme() -> None:
    assert tuple(FAMILIES) == family_names()
    assert family_table() in README.read_text(encoding="utf-8")
    name, models, parity = row("olmo2", 1, from_float64=False).strip("| ").split(" | ")
    assert (name, models) == ("`olmo2`", "4") and 0 < float(parity) < 1e-4
