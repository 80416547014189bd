"""`--cpu-seconds`: what the tests of each folder cost, and the longest ones, with the programs that
they start; the figures do not depend on what else the machine does."""

import resource
from collections import Counter
from typing import Any

import pytest

PROPERTY = "cpu_seconds"
LONGEST = 40
_spent = 0.0


def spent() -> float:
    """Of this process and of its children that have ended, in seconds."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-seconds", action="store_true", help="what each folder's tests cost")


def pytest_collection_finish() -> None:
    global _spent
    _spent = spent()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Any:
    """Of what was spent since the last phase of a test, this one is the cause."""
    global _spent
    report = yield
    before, _spent = _spent, spent()
    report.user_properties = [(PROPERTY, _spent - before)]
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not config.getoption("--cpu-seconds"):
        return
    folders, tests = Counter[str](), Counter[str]()
    for reports in terminalreporter.stats.values():
        for report in reports:
            seconds = dict(getattr(report, "user_properties", ())).get(PROPERTY, 0.0)
            if seconds:
                folders["/".join(report.nodeid.split("/")[:2]).partition("::")[0]] += seconds
                tests[report.nodeid] += seconds
    for title, counted in (("folder", folders), ("test", tests)):
        terminalreporter.section(f"CPU seconds of each {title}")
        for name, seconds in counted.most_common(LONGEST):
            terminalreporter.write_line(f"{seconds:8.1f}  {name}")
