"""How close each family is to transformers: the largest difference of a logit, over the models of
`family_models` and others at random, in one call and over the cache in pieces.

    PYTHONPATH=tests python -m support.family_parity [--random N] [MODEL_TYPE ...]

prints a row for each family, as the table of exporter/models/families/README.md has them.
"""

import argparse
from collections.abc import Iterator

import support.silent  # noqa: F401
import torch
from support.families import FAMILIES
from support.family_models import (
    LENGTH,
    PIECES,
    Case,
    case_of,
    our_model,
    random_case,
    reference_model,
    tokens_of,
    transformers,
)


def cases_of(model_type: str, random: int) -> Iterator[Case]:
    """The listed models of a family, and as many others at random."""
    yield from (case_of(model_type, label) for label in FAMILIES[model_type].cases)
    yield from (random_case(model_type, seed) for seed in range(random))


@torch.no_grad()
def difference(case: Case) -> float:
    """The largest one between our logits and those of transformers, whatever the calls."""
    reference = reference_model(case)
    tokens = tokens_of(reference)
    expected = reference(tokens).logits
    model = our_model(reference)
    found = (model.logits(tokens) - expected).abs().max()
    if model.config.original_context is not None:  # all calls by the table of the whole text
        model.config = model.config.for_context(LENGTH)
    model.setup_cache(LENGTH)
    for start, end in PIECES:
        ours = model(tokens[:, start:end], torch.tensor([start]))
        found = torch.maximum(found, (ours - expected[:, end - 1]).abs().max())
    return found.item()


def row(model_type: str, random: int) -> str:
    """One family's row."""
    found = [difference(case) for case in cases_of(model_type, random)]
    return f"| `{model_type}` | {len(found)} | {max(found):.0e} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", default=FAMILIES, metavar="MODEL_TYPE")
    parser.add_argument("--random", type=int, default=24, metavar="N", help="models at random")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()  # it warns of some of what is drawn
    print("| family | models | parity |\n|---|---|---|")
    for model_type in arguments.families:
        print(row(model_type, arguments.random), flush=True)


if __name__ == "__main__":
    main()
