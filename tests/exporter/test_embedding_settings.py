"""What the files of sentence-transformers say of a model."""

import json
from pathlib import Path

import pytest

from exporter.embedding.settings import read_settings


def write(path: Path, fields: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(fields))


@pytest.mark.parametrize(
    ("name", "settings", "limit"),
    [
        ("sentence_xlm-roberta_config.json", {"max_seq_length": 9}, 9),
        ("sentence_bert_config.json", {"max_seq_length": None}, 11),
        ("sentence_bert_config.json", {"do_lower_case": True}, 11),
        (
            "sentence_bert_config.json",
            {"max_seq_length": 9, "tokenizer_args": {"model_max_length": 7}},
            7,
        ),
    ],
)
def test_the_longest_text_is_found_where_it_stands(
    name: str, settings: dict[str, object], limit: int, tmp_path: Path
) -> None:
    write(tmp_path / name, settings)
    write(tmp_path / "tokenizer_config.json", {"model_max_length": 11})
    write(tmp_path / "1_Pooling" / "config.json", {"pooling_mode": ["mean"]})
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    modules = [{"type": f"st.models.{kind}", "path": path} for path, kind in kinds.items()]
    write(tmp_path / "modules.json", modules)
    read = read_settings(tmp_path)
    assert read.max_seq_len == limit and read.spec.pooling == "mean"
    write(tmp_path / name, {})
    write(tmp_path / "tokenizer_config.json", {"model_max_length": 1e30})
    assert read_settings(tmp_path).max_seq_len is None
