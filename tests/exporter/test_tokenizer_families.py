"""Tokenizers of every supported family, trained here: the C++ equals `tokenizers`."""

from pathlib import Path

import pytest
from support.cpp_programs import CppTokenizer
from support.hostile_text import hostile_strings
from support.trained_tokenizers import TRAINERS, train_llama3, train_qwen2, training_text
from tokenizers import Tokenizer

import exporter.embedded
from exporter.tokenizer import compile_tokenizer, load_tokenizer

# Names that the trained tokenizers have as added tokens, amid blanks.
ADDED = (
    "a <mask> b",
    "<mask>\n<mask>",
    "x \u00a0<both>\u3000 <sep>  y",
    "<sep> <sep>z",
    "<tool_call><tool>\u00e9\u0301<tool>e\u0301\u0301",
    "<<tool>>",
    "a<\u00e9><e\u0301>",
    "<tool_call",
    "a<s>b</s> c",
    " <s> x",
    "<|begin_of_text|><|eot_id|>[INST]",
)


@pytest.fixture(scope="module", params=TRAINERS)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp(request.param)
    (directory / "tokenizer.json").write_text(TRAINERS[request.param](), encoding="utf-8")
    return directory


def cpp_tokenizer(directory: Path, cpp_build: Path) -> CppTokenizer:
    blob = directory / "blob"
    blob.write_bytes(compile_tokenizer(directory).data)
    return CppTokenizer(cpp_build, blob)


def test_ids_and_texts_equal_the_reference(directory: Path, cpp_build: Path) -> None:
    cpp = cpp_tokenizer(directory, cpp_build)
    reference = load_tokenizer(directory)
    texts = [*hostile_strings(3000, seed=23), *ADDED, *training_text()]
    theirs = [reference.encode(text) for text in texts]
    for text, ours, expected in zip(texts, cpp.encode(texts), theirs, strict=True):
        assert ours == expected, text[:300]
    decoded = [reference.decode(ids) for ids in theirs]
    for ours, expected in zip(cpp.decode(theirs), decoded, strict=True):
        assert ours == expected


def test_special_tokens_equal_the_reference(directory: Path, cpp_build: Path) -> None:
    cpp = cpp_tokenizer(directory, cpp_build)
    reference = Tokenizer.from_file(str(directory / "tokenizer.json"))
    texts = [*hostile_strings(500, seed=29), *ADDED]
    theirs = [reference.encode(text, add_special_tokens=False).ids for text in texts]
    for text, ours, expected in zip(
        texts, cpp.encode(texts, parse_special=True), theirs, strict=True
    ):
        assert ours == expected, text


@pytest.mark.check
def test_every_canonical_sequence_is_normalized(tmp_path: Path, cpp_build: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(train_qwen2(), encoding="utf-8")
    cpp = cpp_tokenizer(tmp_path, cpp_build)
    reference = load_tokenizer(tmp_path)
    points = [point for point in range(0x20, 0x110000) if not 0xD800 <= point < 0xE000]
    marks = "\u0301\u0327\u0334\u0345\u1161\u11a8\u3099"
    texts = [
        "".join(chr(point) + mark for point in points[at : at + 4096])
        for mark in ("", *marks)
        for at in range(0, 0x3200 if mark else len(points), 4096)
    ]
    texts += ["".join(mark + chr(point) for point in points[:0x3200]) for mark in marks]
    assert cpp.encode(texts) == [reference.encode(text) for text in texts]


def test_begin_of_text_comes_from_the_post_processor(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(train_llama3(), encoding="utf-8")
    compiled = compile_tokenizer(tmp_path)
    assert compiled.bos_id == 0
    assert compiled.eos_ids == []


def test_configs_say_where_texts_begin_and_end(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(train_qwen2(), encoding="utf-8")
    (tmp_path / "config.json").write_text('{"bos_token_id": 1, "eos_token_id": 0}')
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [1, 0]}')
    assert compile_tokenizer(tmp_path).bos_id == 1
    assert compile_tokenizer(tmp_path).eos_ids == [1, 0]

    config = '{"bos_token": null, "eos_token": {"content": "<|im_start|>"}}'
    (tmp_path / "tokenizer_config.json").write_text(config)
    assert compile_tokenizer(tmp_path).bos_id is None
    assert compile_tokenizer(tmp_path).eos_ids == [1, 0]


def test_the_embedded_models_tokenizer_equals_the_reference(
    tmp_path: Path, cpp_build: Path
) -> None:
    source = Path(exporter.embedded.__file__).parent / "tokenizer.json"
    if not source.is_file():
        pytest.skip("exporter/embedded has no tokenizer.json: the model is not trained yet")
    blob = tmp_path / "blob"
    blob.write_bytes(compile_tokenizer(source).data)
    cpp, reference = CppTokenizer(cpp_build, blob), load_tokenizer(source)
    texts = [*hostile_strings(3000, seed=37), *training_text()]
    theirs = [reference.encode(text) for text in texts]
    assert cpp.encode(texts) == theirs
    assert cpp.decode(theirs) == [reference.decode(ids) for ids in theirs]
