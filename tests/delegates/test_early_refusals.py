"""What Metal does not run of a family is refused by the model's config, not after hours."""

import pytest
import torch
from support.family_models import CASES, SHAPE, Case
from support.small_models import random_model
from support.tiers import soaked
from transformers import AutoConfig

from delegates import DelegateError, get_delegate
from exporter.capture.program import capture
from exporter.models.families import decoder_spec
from exporter.plan.requirements import needs_of

CONTEXT = 16
FEW = [case for case in CASES if (case.model_type, case.label) == ("granite", "multipliers")]


@pytest.mark.parametrize("case", [*FEW, *soaked([one for one in CASES if one not in FEW])], ids=str)
def test_metal_refuses_early_or_lowers(case: Case) -> None:
    fields = AutoConfig.for_model(case.model_type, **{**SHAPE, **case.fields}).to_dict()
    spec, mps = decoder_spec(fields).for_context(CONTEXT), get_delegate("mps")
    try:
        mps.LIMITS.check(needs_of(spec))
    except DelegateError:
        return
    torch.manual_seed(0)
    mps.lower(capture(random_model(spec), CONTEXT, CONTEXT), {}, {}, False)
