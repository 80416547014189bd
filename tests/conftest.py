"""What pytest does beside running tests: options, order, and where the fixtures are."""

import gc
import os
import signal

import pytest
from support.cpu_seconds import (  # noqa: F401  (hooks of pytest)
    pytest_addoption,
    pytest_collection_finish,
    pytest_runtest_makereport,
    pytest_terminal_summary,
)

# Imports and 9,000 tests stay alive: to look through them for garbage took 15% of collection.
gc.set_threshold(50_000, 20, 20)

# Python's readline tells the programs that it starts how wide the terminal is, where there is none.
os.environ.pop("COLUMNS", None)
os.unsetenv("COLUMNS")

# Programs that tests start compute little too, and two of these at once wait for each other.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# A shell starts what runs in the background without Ctrl-C, and so would the tests' programs.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """A process that only gives tests to others waits for none of the libraries that they need."""
    gives_tests_to_others = config.getoption("numprocesses", None) and not hasattr(
        config, "workerinput"
    )
    if not gives_tests_to_others:
        for plugin in ("support.silent", "support.fixtures"):
            config.pluginmanager.import_plugin(plugin)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One that takes minutes would leave the other processes idle if it began last."""
    items.sort(key=lambda item: item.get_closest_marker("first") is None)
