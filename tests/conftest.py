"""Fixtures that several test files share."""

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real weights, tokenizers and text that lie beside the repository, not inside it."""
    if not SHARED_DATA.is_dir():
        pytest.skip("no ../shared/data beside the repository: real weights and texts are absent")
    return SHARED_DATA
