"""The table of sweeps: of tests that there are."""

from collections import Counter

from sweeps import SWEEPS, TESTS, _Counts, main, table


def test_the_tests_of_every_sweep_exist() -> None:
    assert not [path for paths in SWEEPS.values() for path in paths if not (TESTS / path).is_file()]


def test_the_table_counts_outcomes_by_sweep() -> None:
    first, *others = SWEEPS["packings"]
    outcomes = {first: Counter(passed=2, failed=1), others[0]: Counter(passed=3)}
    lines = table(_Counts(outcomes, Counter({first: 1.25})), ["fields", "packings"]).splitlines()
    assert lines[0].split() == ["sweep", "passed", "failed", "skipped", "seconds"]
    assert lines[1].split() == ["fields", "0", "0", "0", "0.0"]
    assert lines[2].split() == ["packings", "5", "1", "0", "1.2"]
    assert main(["nothing"]) == 2
