"""What a model of `hybrid_models` answers in the runner, beside what it answers in float."""

from pathlib import Path

import torch
from support.hybrid_models import BOS, CONTEXT, EOS, export_hybrid
from support.loading import loaded

from exporter.catalogue.names import EMBEDDED
from exporter.checkpoint import open_checkpoint
from exporter.tokenizer import load_tokenizer
from quant.scheme import Scheme
from runtime import Runner


def assert_eager_says_the_same(directory: Path, name: str, prompt: str) -> None:
    """Greedy tokens of the finished file, by the model in float, until one ends the answer.

    Args:
        directory: where the model and its file are written.
        prompt: one beside those that every model gets.
    """
    runner = Runner(export_hybrid(directory, name, Scheme("none")), threads=1)
    eager = loaded(open_checkpoint(directory))
    eager.setup_cache(CONTEXT)
    tokenizer, told = load_tokenizer(EMBEDDED), []
    for text in ("Once upon a time", "import os", prompt):
        ids = step = [BOS, *runner.encode(text)]
        with torch.no_grad():
            while len(ids) < 60 and step[-1] != EOS and step != [BOS]:
                start = len(ids) - len(step)
                step = [int(eager(torch.tensor([step]), torch.tensor([start])).argmax())]
                ids = [*ids, *step]
        told.append("".join(runner.generate(text, max_new_tokens=60)))
        wanted = tokenizer.decode([token for token in ids[1:] if token not in (BOS, EOS)])
        assert (text + told[-1])[: len(wanted)] == wanted
    assert all(len(text) > 5 for text in told)
