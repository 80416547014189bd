"""Cases that are too many for every run of the tests."""

from collections.abc import Iterable
from typing import Any

import pytest


def checked(cases: Iterable[object]) -> list[Any]:
    """Single arguments of `pytest.mark.parametrize` that only `make check` runs."""
    return [pytest.param(case, marks=pytest.mark.check) for case in cases]


def checked_rows(rows: Iterable[tuple[object, ...]]) -> list[Any]:
    """Rows of several arguments that only `make check` runs."""
    return [pytest.param(*row, marks=pytest.mark.check) for row in rows]


def soaked(cases: Iterable[object]) -> list[Any]:
    """Single arguments that only `make soak` runs."""
    return [pytest.param(case, marks=pytest.mark.soak) for case in cases]


def soaked_rows(rows: Iterable[tuple[object, ...]]) -> list[Any]:
    """Rows of several arguments that only `make soak` runs."""
    return [pytest.param(*row, marks=pytest.mark.soak) for row in rows]
