"""No change of a config.json makes us compute something else than transformers does."""

import random

import pytest
from support.config_sweep import ALIKE, NEITHER, OURS, THEIRS, changed_configs, outcome
from support.families import FAMILIES
from support.tiers import soaked

SAMPLE = 2  # changed configs of each family in every run of the tests


@pytest.mark.filterwarnings("ignore")  # transformers' own, of what it is given
@pytest.mark.parametrize("sample", [SAMPLE, *soaked([None])])
@pytest.mark.parametrize("model_type", FAMILIES)
def test_a_changed_config(model_type: str, sample: int | None) -> None:
    configs = list(changed_configs(model_type))
    if sample is not None:
        configs = random.Random(model_type).sample(configs, sample)
    found = {what: outcome(fields) for what, fields in configs}
    different = {
        what: said for what, said in found.items() if said not in (ALIKE, NEITHER, OURS, THEIRS)
    }
    assert not different
    assert sample is not None or [*found.values()].count(ALIKE) > len(found) / 5
