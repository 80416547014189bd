"""The tag of a wheel follows from the versions of symbols that its programs need."""

import sysconfig
from pathlib import Path

import pytest

from runtime.packaging.platform_tag import least_glibc, platform_tag


@pytest.mark.parametrize(
    ("needed", "least"),
    [
        ([], 17),
        ([(b"GLIBC", b"2.2.5")], 17),
        ([(b"GLIBC", b"2.34"), (b"GLIBC", b"2.3.4")], 34),
        ([(b"GLIBC", b"2.4"), (b"GLIBC", b"2.39")], 39),
        ([(b"GLIBC", b"ABI_DT_RELR"), (b"GLIBC", b"2.34")], 36),
        ([(b"GLIBCXX", b"3.4"), (b"GLIBCXX", b"3.4.9")], 17),
        ([(b"GLIBC", b"2.34"), (b"GLIBCXX", b"3.4.29")], 34),
        ([(b"GLIBC", b"2.34"), (b"GLIBCXX", b"3.4.30")], 35),
        ([(b"GLIBCXX", b"3.4.31")], 39),
        ([(b"GLIBCXX", b"3.4.34")], None),
        ([(b"GLIBC", b"3.0")], None),
    ],
)
def test_the_least_glibc(needed: list[tuple[bytes, bytes]], least: int | None) -> None:
    assert least_glibc(needed) == least


def test_neighbours_in_a_table_of_strings_are_all_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysconfig, "get_platform", lambda: "linux-aarch64")
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"\0GLIBC_2.17\0GLIBC_2.31\0GLIBC_PRIVATE\0OTHER_9.9\0")
    other.write_bytes(b"\0GLIBCXX_3.4.30\0see GLIBC_2.99 \0")
    assert platform_tag([one]) == "manylinux_2_31_aarch64"
    assert platform_tag([one, other]) == "manylinux_2_35_aarch64"
    assert platform_tag([one], "linux-x86_64") == "manylinux_2_31_x86_64"


def test_a_machine_of_another_system_keeps_its_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_platform", lambda: "macosx-13.0-arm64")
    assert platform_tag([]) == "macosx_13_0_arm64"
