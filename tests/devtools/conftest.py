"""A recorded run of the model that a test file's own fixture `name` names."""

from pathlib import Path

import pytest
from support.recorded_runs import Recorded

from devtools.profile import Profile, load_profile


@pytest.fixture(scope="module")
def pte(name: str, request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue(name)
    return path


@pytest.fixture(scope="module")
def etdump(name: str, recorded: Recorded) -> Path:
    return recorded(name)[0]


@pytest.fixture(scope="module")
def profile(name: str, recorded: Recorded) -> Profile:
    return load_profile(*recorded(name))
