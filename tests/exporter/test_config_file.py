"""The file config.json: read, damaged, absent."""

import json
from pathlib import Path

import pytest
from support.llama_config import LLAMA

from exporter.catalogue.model_config import read_config
from exporter.errors import ExportError
from exporter.models.families import decoder_spec, get_family


def test_a_file_is_read_and_named_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    assert read_config(path) == (get_family("llama"), decoder_spec(LLAMA))
    path.write_text(json.dumps({**LLAMA, "head_dim": 7}))
    with pytest.raises(ExportError) as raised:
        read_config(path)
    assert str(raised.value).startswith(f"{path}: head_dim 7 is odd; rotary embedding rotates ")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be read as JSON (Expecting value"),
        (b'{"model_type": ', "cannot be read as JSON (Expecting value"),
        (b"\xff\xfe\x00", "cannot be read as JSON ('utf-8' codec"),
        (b"[]", "is not a JSON object; download it again."),
        (b"[" * 100_000, "cannot be read as JSON (maximum recursion depth exceeded"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is only a Git LFS pointer"),
    ],
)
def test_a_damaged_file_is_said_to_be(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ExportError) as raised:
        read_config(path)
    assert str(raised.value).startswith(f"{path} {said}")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ExportError) as raised:
        read_config(tmp_path / "config.json")
    assert str(raised.value) == (
        f"{tmp_path} has no config.json; a Hugging Face model directory has one next to its "
        "weights: check the path."
    )
