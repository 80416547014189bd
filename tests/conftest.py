"""Fixtures that several test files share."""

from pathlib import Path

import pytest
import torch

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real weights, tokenizers and text that lie beside the repository, not inside it."""
    if not SHARED_DATA.is_dir():
        pytest.skip("no ../shared/data beside the repository: real weights and texts are absent")
    return SHARED_DATA


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Models of a few thousand parameters: waking a second thread costs more than it computes,
    a hundred times more on a machine that is busy elsewhere."""
    torch.set_num_threads(1)
