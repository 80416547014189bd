"""Memory: what does not fit goes to disk, with the same bits."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_models import SMALL, ModelWeights, random_model
from test_quant_cache import content

from exporter.model import CausalLM
from quant.errors import QuantError
from quant.means import Means
from quant.method import DRIFTS, Method
from quant.quantize import quantize
from quant.ranks import Ranks
from quant.scheme import Scheme
from quant.spill import Batches, Spill

CONFIG = replace(SMALL, num_hidden_layers=2, attention_bias=True)
FLOAT = random_model(CONFIG)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("drift", DRIFTS)
def test_spilled_or_not_the_bits_are_the_same(drift: str, tied: bool, tmp_path: Path) -> None:
    config = replace(CONFIG, tie_word_embeddings=tied)
    weights = ModelWeights(random_model(config))
    text = torch.randint(0, 96, (40, 64), generator=torch.Generator().manual_seed(3))
    models = []
    for spill in (Spill(), Spill(tmp_path)):
        with torch.device("meta"):
            model = CausalLM(config)
        scheme = Scheme("gptq4", method=Method(drift=drift))
        report = quantize(model, scheme, weights, text, text[:4], means=Means(spill=spill))
        models.append((content(model), model.logits(text[:2]), report.quality))
        tied_now = (
            model.lm_head.weight.qdata.data_ptr() == model.model.embed_tokens.values.data_ptr()
        )
        assert tied_now == tied
        assert list(tmp_path.iterdir()) == []  # the files have no names
    (ours, logits, quality), (theirs, their_logits, their_quality) = models
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert torch.equal(logits, their_logits) and quality == their_quality


def test_batches_in_a_file_are_read_back_and_replaced(tmp_path: Path) -> None:
    tensors = [torch.randn(3, 4), torch.randn(2, 4), torch.randn(0, 4)]
    batches = Batches(tmp_path)
    for tensor in tensors:
        batches.append(tensor)
    tensors[0] = torch.randn(3, 4).T.contiguous().T
    batches[0] = tensors[0]
    assert len(batches) == 3
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(batches, tensors, strict=True))


def test_sums_over_shards_are_a_tree(tmp_path: Path) -> None:
    terms = [torch.randn(5, 5) * 10**index for index in range(8)]
    a, b, c, d, e, f, g, h = terms
    wanted = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for spill in (Spill(), Spill(tmp_path)):
        assert torch.equal(Ranks().sum((term.clone() for term in terms), spill), wanted)


def test_a_disk_that_takes_no_more_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(QuantError) as error:
        Spill(tmp_path / "file" / "directory").keep([torch.zeros(1)])
    assert str(error.value) == (
        f"{tmp_path}/file/directory takes no more of what does not fit in memory (Not a directory)"
        "; free some space there, name another place with --cache, or allow more with --max-memory."
    )
