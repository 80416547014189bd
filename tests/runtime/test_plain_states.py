"""States of a delegate that takes none back, in the runner: whatever is rewound, its answers are
those of a runner that reads the tokens for the first time."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from support.hybrid_models import export_hybrid

from quant.scheme import Scheme
from runtime import Runner

TOKENS = torch.randint(3, 4096, (80,), generator=torch.Generator().manual_seed(3)).tolist()
OTHER = TOKENS[::-1]


def last_logits(runner: Runner, tokens: list[int]) -> NDArray[np.float32]:
    return runner.logits(tokens, len(tokens) - 1)


@pytest.mark.check
def test_a_text_that_goes_back_is_read_anew(tmp_path: Path, cpp_build: Path) -> None:
    pte = export_hybrid(tmp_path, "short convolutions", Scheme("none"), delegate="xnnpack")
    runner = Runner(pte, threads=1)
    last_logits(runner, TOKENS)
    for tokens in (TOKENS[:50], TOKENS[:40] + OTHER[:9], TOKENS[:33]):
        wanted = last_logits(Runner(pte, threads=1), tokens)
        np.testing.assert_allclose(last_logits(runner, tokens), wanted, rtol=0, atol=1e-5)
    runner.truncate(20)
    assert runner.length == 20
    tokens = TOKENS[:20] + OTHER[:5]
    wanted = last_logits(Runner(pte, threads=1), tokens)
    np.testing.assert_allclose(last_logits(runner, tokens), wanted, rtol=0, atol=1e-5)
