"""Where the cache of quantized layers lies, and how large it may be."""

from pathlib import Path

import pytest

from quant.cache.place import default_directory
from quant.cache.store import DEFAULT_SIZE, default_size
from quant.errors import QuantError
from quant.machine.memory_size import parse_size


def test_where_and_how_large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("THIMBLE_CACHE", str(tmp_path))
    assert default_directory() == tmp_path
    monkeypatch.delenv("THIMBLE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_directory() == Path("/somewhere/thimble")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_directory() == Path("/home/me/.cache/thimble")
    monkeypatch.delenv("THIMBLE_CACHE_SIZE", raising=False)
    assert default_size() == DEFAULT_SIZE
    monkeypatch.setenv("THIMBLE_CACHE_SIZE", "1.5 GiB")
    assert default_size() == 3 * 2**29


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "6 apples",
            "--max-memory '6 apples' is not a valid size; write a number and kB, MB, GB, TB, KiB, "
            "MiB, GiB or TiB, such as 6GB.",
        ),
        (
            "5",
            "--max-memory '5' has no unit; write a number and a unit, such as 5GB, or nothing.",
        ),
        ("0GB", "--max-memory '0GB' is not a valid size; give one above 0, such as 6GB."),
    ],
)
def test_sizes_that_are_none(text: str, sentence: str) -> None:
    with pytest.raises(QuantError) as error:
        parse_size(text, "--max-memory", ", or nothing")
    assert str(error.value) == sentence
