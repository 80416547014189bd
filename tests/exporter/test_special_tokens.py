"""Special tokens that stand in any of the files beside a tokenizer: read as transformers does."""

import json
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support.cpp_programs import CppTokenizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer

from exporter.chat_template.compile import load_as_kept
from exporter.tokenizer import TokenizerError, compile_tokenizer
from exporter.tokenizer.compile import read_specification

END = "<|endoftext|>"
MARKS = ("<|im_start|>", "<|im_end|>")
TEXTS = (
    "<|im_start|>user\nOnce upon a time<|im_end|>\n<|im_start|>assistant\n",
    " once <|im_end|> upon<tool>a<image>  time",
    "<s>a</s><unk><pad>  <mask>time <|endoftext|>once",
    "  upon",
    20 * " " + "x",
)
TEMPLATE = (
    "{% for m in messages %}{{ bos_token }}{{ m['content'] }}|{{ eos_token }}|{{ unk_token }}|"
    "{{ pad_token }}|{{ image_token }}|{{ sep_token is defined }}{% endfor %}"
)
TURN = [{"role": "user", "content": "One"}]
Json = dict[str, Any]


def token(content: str, special: bool = True, **flags: bool) -> Json:
    names = ("lstrip", "rstrip", "normalized", "single_word")
    return {"content": content, **dict.fromkeys(names, False), "special": special, **flags}


def forms(first: int) -> dict[str, dict[str, Json]]:
    """What the files beside a tokenizer say, by what is special about it."""
    listed = {str(first + at): token(mark) for at, mark in enumerate(MARKS)}
    apart = {mark: first + at for at, mark in enumerate(MARKS)}
    config, named, added = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
    return {
        "decoder": {config: {"added_tokens_decoder": listed}},
        "file": {added: apart},
        "additional": {config: {"additional_special_tokens": list(MARKS)}},
        "extra": {config: {"extra_special_tokens": list(MARKS)}},
        "extra of objects": {
            named: {"extra_special_tokens": [{"content": mark} for mark in MARKS]}
        },
        "extra by name": {config: {"extra_special_tokens": {"image_token": "<image>"}}},
        "name of its own": {config: {"image_token": "<image>", "pad_token": "<pad>"}},
        "map": {named: {"additional_special_tokens": list(MARKS), "eos_token": "<|im_end|>"}},
        "map of objects": {named: {"pad_token": token("<pad>", lstrip=True)}},
        "map is not read": {
            config: {"added_tokens_decoder": listed},
            named: {"eos_token": "<|im_end|>", "pad_token": "<pad>"},
            added: {"<tool>": first + 2},
        },
        "file and map": {named: {"additional_special_tokens": [MARKS[0]]}, added: apart},
        "flags": {
            config: {
                "added_tokens_decoder": {
                    str(first): token("<|im_start|>", rstrip=True),
                    str(first + 1): token("<|im_end|>", lstrip=True),
                    str(first + 2): token("<tool>", special=False),
                }
            }
        },
        "not special": {added: {"<tool>": first}},
        "no tokens": {config: {"eos_token": None, "bos_token": None, "unk_token": None}},
        "mask": {config: {"mask_token": "<mask>", "sep_token": "</s>"}},
    }


def train(**options: Any) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=280, initial_alphabet=alphabet, special_tokens=[END, "<s>", "</s>", "<unk>"]
    )
    tokenizer.train_from_iterator(["once upon a time"] * 9, trainer)
    return tokenizer


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> dict[str, Path]:
    """Directories with a tokenizer and nothing else, by its kind."""
    root = tmp_path_factory.mktemp("bases")
    tokenizer = train()
    for name in ("json", "vocabulary alone", "pair", "sentencepiece"):
        (root / name).mkdir()
    tokenizer.save(str(root / "json/tokenizer.json"))
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = []
    (root / "vocabulary alone/tokenizer.json").write_text(json.dumps(document))
    tokenizer.model.save(str(root / "pair"))
    shutil.copy(shared_data / "stories260K/tokenizer.model", root / "sentencepiece")
    return {path.name: path for path in root.iterdir()}


KINDS = ("json", "vocabulary alone", "pair", "sentencepiece")
NAMED = {
    "json": {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"},
    "pair": {"tokenizer_class": "GPT2Tokenizer", "bos_token": END, "eos_token": END},
    "sentencepiece": {"tokenizer_class": "LlamaTokenizer", "unk_token": "<unk>"},
}


def write(base: Path, kind: str, form: dict[str, Json], out: Path) -> Path:
    shutil.copytree(base, out)
    config = {"add_bos_token": False, "unk_token": "<unk>", "chat_template": TEMPLATE}
    config |= NAMED.get(kind, NAMED["json"]) | form.get("tokenizer_config.json", {})
    (out / "config.json").write_text(json.dumps({"model_type": "llama", "eos_token_id": 2}))
    for name, fields in {**form, "tokenizer_config.json": config}.items():
        (out / name).write_text(json.dumps(fields))
    return out


@pytest.mark.parametrize("pad", ["<unk>", "<pad>", None])
@pytest.mark.parametrize("class_name", ["PreTrainedTokenizerFast", "GPTNeoXTokenizer"])
@pytest.mark.parametrize("given", [{}, {"pad_token": "</s>"}, {"pad_token": None}], ids=str)
def test_the_token_of_the_padding(
    given: Json, class_name: str, pad: str | None, bases: dict[str, Path], tmp_path: Path
) -> None:
    """It is pad_token where the files beside name none, or it is new."""
    form = {"tokenizer_config.json": {"tokenizer_class": class_name, **given}}
    path = write(bases["json"], "json", form, tmp_path / "model")
    if pad is not None:
        library = Tokenizer.from_file(str(path / "tokenizer.json"))
        library.enable_padding(pad_id=3, pad_token=pad)
        library.save(str(path / "tokenizer.json"))
    oracle, compiled = AutoTokenizer.from_pretrained(path), compile_tokenizer(path)
    assert compiled.tokens == oracle.special_tokens_map
    assert compiled.vocab_size == len(oracle)
    ours = load_as_kept(TEMPLATE, compiled.tokens)[0](TURN, True)
    assert ours == oracle.apply_chat_template(TURN, tokenize=False, add_generation_prompt=True)


UNREAD = ("sentencepiece", "map")  # see below


@pytest.mark.parametrize(
    ("kind", "form"), [case for case in product(KINDS, forms(0)) if case != UNREAD]
)
def test_tokens_of_the_other_files(
    kind: str, form: str, bases: dict[str, Path], tmp_path: Path, cpp_build: Path
) -> None:
    path = write(bases[kind], kind, forms(size_of(bases[kind]))[form], tmp_path / "model")
    oracle = AutoTokenizer.from_pretrained(path)
    compiled = compile_tokenizer(path)
    (tmp_path / "blob").write_bytes(compiled.data)
    cpp = CppTokenizer(cpp_build, tmp_path / "blob")
    expected = [oracle(text, add_special_tokens=False).input_ids for text in TEXTS]
    assert cpp.encode(list(TEXTS), parse_special=True) == expected
    assert compiled.tokens == oracle.special_tokens_map
    ours = load_as_kept(TEMPLATE, compiled.tokens)[0](TURN, True)
    assert ours == oracle.apply_chat_template(TURN, tokenize=False, add_generation_prompt=True)


@pytest.mark.parametrize("model_type", ["llama", "qwen3", "gemma2", "starcoder2"])
@pytest.mark.parametrize("kind", ["json", "sentencepiece"])
def test_what_templates_name_without_a_config(
    kind: str, model_type: str, bases: dict[str, Path], tmp_path: Path
) -> None:
    """The class of the model has tokens, or the SentencePiece model; ids of the model name none."""
    path = tmp_path / "model"
    shutil.copytree(bases[kind], path)
    fields = {"model_type": model_type, "bos_token_id": 1, "eos_token_id": 2}
    (path / "config.json").write_text(json.dumps(fields))
    oracle, compiled = AutoTokenizer.from_pretrained(path), compile_tokenizer(path)
    assert compiled.tokens == oracle.special_tokens_map
    if (kind, model_type) == ("json", "llama"):
        assert compiled.tokens == {}


def size_of(path: Path) -> int:
    if (path / "tokenizer.model").is_file():
        return 512
    file = path / "tokenizer.json"
    fields = json.loads((file if file.is_file() else path / "vocab.json").read_text())
    return len(fields["model"]["vocab"] if file.is_file() else fields)


def test_a_token_of_the_map_that_transformers_does_not_read(
    bases: dict[str, Path], tmp_path: Path
) -> None:
    form = forms(512)["map"]
    path = write(bases["sentencepiece"], "sentencepiece", form, tmp_path / "model")
    with pytest.raises(TokenizerError, match=r"additional_special_tokens names '<\|im_start\|>'"):
        compile_tokenizer(path)


def test_a_listed_token_with_another_id(bases: dict[str, Path], tmp_path: Path) -> None:
    for kind in ("json", "sentencepiece"):
        form = {"added_tokens.json": {"<tool>": 700}}
        path = write(bases[kind], kind, form, tmp_path / kind)
        with pytest.raises(TokenizerError, match=r"added_tokens.json gives '<tool>' the id 700"):
            compile_tokenizer(path)


@pytest.mark.parametrize(
    ("file", "fields", "named"),
    [
        ("tokenizer_config.json", {"pad_token": 3}, "pad_token is 3"),
        ("tokenizer_config.json", {"extra_special_tokens": 3}, "extra_special_tokens is 3"),
        ("tokenizer_config.json", {"added_tokens_decoder": [3]}, r"added_tokens_decoder is \[3\]"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"x": {"content": "a"}}}, "'x'"),
        ("special_tokens_map.json", {"eos_token": {"content": "a", "lstrip": 1}}, "lstrip is 1"),
        ("added_tokens.json", {"<tool>": "1"}, "the id of '<tool>' is '1'"),
    ],
)
def test_damaged_fields_are_named(
    file: str, fields: Json, named: str, bases: dict[str, Path], tmp_path: Path
) -> None:
    path = write(bases["json"], "json", {file: fields}, tmp_path / "model")
    with pytest.raises(TokenizerError, match=named):
        compile_tokenizer(path)


@pytest.mark.parametrize("asked", [None, True, False])
@pytest.mark.parametrize("class_name", ["PreTrainedTokenizerFast", "GPTNeoXTokenizer"])
@pytest.mark.parametrize("puts", [True, False])
def test_what_decides_whether_a_text_begins_with_bos(
    asked: bool | None, class_name: str, puts: bool, bases: dict[str, Path], tmp_path: Path
) -> None:
    config = {"tokenizer_class": class_name, "add_bos_token": asked}
    path = write(bases["json"], "json", {"tokenizer_config.json": config}, tmp_path / "model")
    if puts:
        document = json.loads((path / "tokenizer.json").read_text())
        number = {"special_tokens": {"</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}}
        parts = [
            {"SpecialToken": {"id": "</s>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ]
        document["post_processor"] = {
            "type": "TemplateProcessing",
            "single": parts,
            "pair": parts,
            **number,
        }
        (path / "tokenizer.json").write_text(json.dumps(document))
    check_bos(path, asked)


@pytest.mark.parametrize(
    ("processor", "ends"),
    [
        (processors.BertProcessing(("</s>", 2), ("<s>", 1)), True),
        (processors.RobertaProcessing(("</s>", 2), ("<s>", 1)), True),
        (
            processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]),
            True,
        ),
        (processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)]), False),
        (processors.ByteLevel(), False),
    ],
)
def test_whether_a_token_follows_every_text(
    processor: Any, ends: bool, bases: dict[str, Path], tmp_path: Path
) -> None:
    form = {"tokenizer_config.json": {"split_special_tokens": ends}}
    path = write(bases["json"], "json", form, tmp_path / "model")
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    tokenizer.post_processor = processor
    tokenizer.save(str(path / "tokenizer.json"))
    assert (AutoTokenizer.from_pretrained(path)("once").input_ids[-1] == 2) == ends
    compiled = compile_tokenizer(path)
    assert compiled.ends_texts == ends
    assert any("split_special_tokens" in note for note in compiled.notes) == ends


@pytest.mark.parametrize("asked", [None, True, False])
@pytest.mark.parametrize("kind", ["json", "pair", "sentencepiece"])
def test_whether_add_eos_token_is_told(
    asked: bool | None, kind: str, bases: dict[str, Path], tmp_path: Path
) -> None:
    form = {"tokenizer_config.json": {"add_eos_token": asked, "eos_token": "</s>"}}
    path = write(bases[kind], kind, form, tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(path)
    ends = tokenizer("once").input_ids[-1] == tokenizer.eos_token_id
    assert ends == (asked is True and kind != "json")
    assert compile_tokenizer(path).ends_texts == ends


@pytest.mark.parametrize("asked", [None, True, False])
@pytest.mark.parametrize("kind", ["pair", "sentencepiece"])
def test_whether_other_tokenizers_begin_with_bos(
    asked: bool | None, kind: str, bases: dict[str, Path], tmp_path: Path
) -> None:
    form = {"tokenizer_config.json": {"add_bos_token": asked}}
    check_bos(write(bases[kind], kind, form, tmp_path / "model"), asked)


def check_bos(path: Path, asked: bool | None) -> None:
    """`asked`: what the config says; a contradiction is noted."""
    config = json.loads((path / "tokenizer_config.json").read_text())
    if asked is None:
        del config["add_bos_token"]
        (path / "tokenizer_config.json").write_text(json.dumps(config))
    ids = AutoTokenizer.from_pretrained(path)("once").input_ids
    spec = read_specification(path)
    bare = AutoTokenizer.from_pretrained(path)("once", add_special_tokens=False).input_ids
    assert spec.adds_bos == (ids != bare)
    assert not spec.adds_bos or [spec.bos_id, *bare] == ids
    noted = any("add_bos_token" in note for note in spec.notes)
    assert asked is None or noted == (asked != spec.adds_bos)


def test_tokens_beyond_the_embedding_are_dropped(
    bases: dict[str, Path], tmp_path: Path, cpp_build: Path
) -> None:
    for kind in ("json", "sentencepiece"):
        size = size_of(bases[kind])
        form = forms(size)["decoder"]
        path = write(bases[kind], kind, form, tmp_path / kind)
        compiled = compile_tokenizer(path, rows=size + 1)
        assert compiled.vocab_size == size + 1
        assert "'<|im_end|>' is left out" in compiled.notes[0]
        (tmp_path / "blob").write_bytes(compiled.data)
        (ids,) = CppTokenizer(cpp_build, tmp_path / "blob").encode([TEXTS[0]], parse_special=True)
        assert size in ids and max(ids) == size
        assert compile_tokenizer(path, rows=size - 1).vocab_size == size + 2
