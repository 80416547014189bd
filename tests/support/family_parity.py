"""How close each family is to transformers: the largest difference of a logit, over the models of
`family_models` and others at random, in one call and over the cache in pieces.

    PYTHONPATH=tests python -m support.family_parity [--random N] [--float64] [MODEL_TYPE ...]

prints a row for each family, as the table of exporter/models/families/README.md has them. With
--float64 it says instead how far ours and those of transformers are from float64's.
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


@torch.no_grad()
def errors(case: Case) -> tuple[float, float]:
    """How far our logits and those of transformers are from those of our model in float64."""
    reference = reference_model(case)
    tokens = tokens_of(reference)
    exact = our_model(reference).double().logits(tokens)
    ours, theirs = our_model(reference).logits(tokens), reference(tokens).logits
    return (ours - exact).abs().max().item(), (theirs - exact).abs().max().item()


def row(model_type: str, random: int, from_float64: bool) -> str:
    """One family's row."""
    if from_float64:
        both = [errors(case) for case in cases_of(model_type, random)]
        ours, theirs = (max(column) for column in zip(*both, strict=True))
        return f"| `{model_type}` | {len(both)} | {ours:.0e} | {theirs:.0e} |"
    found = [difference(case) for case in cases_of(model_type, random)]
    return f"| `{model_type}` | {len(found)} | {max(found):.0e} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", default=FAMILIES, metavar="MODEL_TYPE")
    parser.add_argument("--random", type=int, default=24, metavar="N", help="models at random")
    parser.add_argument("--float64", action="store_true", help="how far from float64")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()  # it warns of some of what is drawn
    columns = ("ours", "transformers") if arguments.float64 else ("parity",)
    print(f"| family | models | {' | '.join(columns)} |\n|---|---{'|---' * len(columns)}|")
    for model_type in arguments.families:
        print(row(model_type, arguments.random, arguments.float64), flush=True)


if __name__ == "__main__":
    main()
