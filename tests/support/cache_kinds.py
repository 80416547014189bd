"""Exported models with caches of every kind: full, rings of windows, and recurrent states."""

from pathlib import Path

import pytest
from support.hybrid_models import shared_hybrid
from support.windowed_model import shared_windowed

KINDS = {"full": "embedded_cpu_pte", "float32": "stories_cpu_float_pte"}  # by their fixtures


def shared_kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `.pte` of the kind that the fixture's parameter names; read it, do not write it."""
    if request.param in KINDS:
        return request.getfixturevalue(KINDS[request.param])
    if request.param == "windows":
        return shared_windowed(tmp_path_factory)
    return shared_hybrid(tmp_path_factory, request.param)
