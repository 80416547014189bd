"""Logits of many tokens in one call of the model: bit for bit those of a call for each token."""

from pathlib import Path

import numpy as np
import pytest
from support.cache_kinds import shared_kind
from support.tiers import checked, soaked

from runtime import Runner

TOKENS = np.random.default_rng(5).integers(3, 500, 150).tolist()


@pytest.fixture(
    scope="module",
    params=[
        "full",
        "windows",
        *checked(["float32", "delta rule"]),
        *soaked(["short convolutions"]),
    ],
    ids=lambda name: name,
)
def pte(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cpp_build: Path
) -> Path:
    return shared_kind(request, tmp_path_factory)


@pytest.mark.parametrize(
    "kv_cache", ["default", *checked(["float32", "int8", "int4", "int8-int4"])]
)
def test_those_of_a_call_for_each(pte: Path, kv_cache: str) -> None:
    alone, together = (Runner(pte, threads=n, kv_cache=kv_cache) for n in (1, 2))
    for first in (0, 33):
        alone.truncate(0)
        expected = np.stack([alone.logits(TOKENS[: at + 1], at)[0] for at in range(first, 150)])
        together.truncate(0)
        assert np.array_equal(together.logits(TOKENS, first), expected)
        # What the cache has before is not computed again.
        assert np.array_equal(together.logits(TOKENS, 77), expected[77 - first :])


def test_64_rows_a_call(embedded_cpu_pte: Path, cpp_build: Path, tmp_path: Path) -> None:
    runner = Runner(embedded_cpu_pte, threads=1)
    runner.start_recording()
    runner.logits(TOKENS[:130])
    assert runner.stop_recording(tmp_path / "run.etdp").calls == 3
