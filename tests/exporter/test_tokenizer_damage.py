"""Damaged files that come with a model: each is read, or refused in one sentence.

Every test takes some of all mutations, always the same ones; `THIMBLE_MUTATIONS` takes more.
"""

import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.json_mutations import mutated, mutations
from support.random_tokenizers import first_random_tokenizer, train_sentencepiece
from support.tiers import checked
from support.trained_tokenizers import train_metaspace, train_prepending, train_qwen2

from exporter.catalogue.model_config import read_config, read_model_config
from exporter.catalogue.names import EMBEDDED
from exporter.chat_template import compile_chat_template, find_chat_templates
from exporter.errors import ExportError
from exporter.tokenizer import TokenizerError, compile_tokenizer, load_tokenizer
from exporter.tokenizer.compile import read_specification
from exporter.tokenizer.document import tokenizer_document
from exporter.tokenizer.source import TokenizerKind, find_tokenizer
from exporter.tokenizer.special_ids import apply_configs
from exporter.tokenizer.special_tokens import read_special_tokens
from exporter.tokenizer.specification import TokenizerSpec

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

TEMPLATES = Path(__file__).resolve().parents[1] / "chat_templates"
MUTATIONS = int(os.environ.get("THIMBLE_MUTATIONS", "60"))
KEPT = 600  # tokens of a vocabulary, so that one reading takes milliseconds
TEXT = "def naïve(x):  # 123 \n<s>"


def cut_short(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the first tokens of its vocabulary, and the merges among them."""
    model = document["model"]
    vocab = {token: number for token, number in model["vocab"].items() if number < KEPT}

    def is_kept(merge: str | list[str]) -> bool:
        parts = merge.split(" ") if isinstance(merge, str) else merge
        return all(token in vocab for token in (*parts, "".join(parts)))

    merges = [merge for merge in model["merges"] if is_kept(merge)]
    return {**document, "model": {**model, "vocab": vocab, "merges": merges}}


def document_of(name: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    trainers = {
        "qwen2": train_qwen2,
        "prepending": train_prepending,
        "metaspace": train_metaspace,
    }
    if name in trainers:
        return json.loads(trainers[name]())
    if name[0].isupper():
        return json.loads(first_random_tokenizer(name))
    if name == "embedded":
        path = EMBEDDED / "tokenizer.json"
    else:
        path = request.getfixturevalue("shared_data") / "tokenizers" / "smollm_tokenizer.json"
    return cut_short(json.loads(path.read_text(encoding="utf-8")))


def is_one_sentence(error: ExportError) -> bool:
    text = str(error)
    return text.endswith(".") and "\n" not in text


@pytest.mark.parametrize(
    "name",
    [
        *("embedded", "Unigram"),
        *checked(
            [
                "prepending",
                "WordPiece",
                "WordLevel",
                "smollm",
                "qwen2",
                "metaspace",
                "Precompiled",
                "BertNormalizer",
            ]
        ),
    ],
)
def test_any_damage_to_a_tokenizer_json(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    document = document_of(name, request)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(document))
    compile_tokenizer(tmp_path)
    for place, value in mutations(document)[:MUTATIONS]:
        path.write_text(json.dumps(mutated(document, place, value)))
        try:
            compile_tokenizer(tmp_path)
            load_tokenizer(tmp_path).encode(TEXT)
        except TokenizerError as error:
            assert is_one_sentence(error), (place, value)


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("added_tokens", 0, "content"), 5, "added_tokens[0].content is 5, not a string"),
        (("added_tokens", 0, "content"), "", "added_tokens[0].content is empty"),
        (("added_tokens", 0, "content"), "\ud800", "has an unpaired surrogate"),
        (("added_tokens", 0, "id"), float("inf"), "added_tokens[0].id is inf, not a token id"),
        (("added_tokens", 0, "special"), "x", "added_tokens[0].special is 'x', not true or false"),
        (("model", "vocab"), {}, "the vocab is empty"),
        (("model", "merges"), ["a"], "merges[0] is 'a', not a pair of tokens"),
        (("model", "continuing_subword_prefix"), "#" * 9, "whose second token is shorter than the"),
        (("post_processor", "single"), [], "post_processor.single is empty"),
        (("post_processor", "single"), "", "post_processor.single is '', not a list"),
        (
            ("post_processor", "special_tokens", "<|begin_of_text|>", "ids"),
            [],
            "post_processor.special_tokens['<|begin_of_text|>'].ids is empty",
        ),
        (
            ("post_processor", "special_tokens", "<|begin_of_text|>", "ids"),
            [100_000],
            "the post_processor begins a text with 100000, which is not a token",
        ),
    ],
)
def test_what_is_wrong_is_said(
    place: tuple[str | int, ...], value: Any, said: str, tmp_path: Path
) -> None:
    document = json.loads((EMBEDDED / "tokenizer.json").read_text(encoding="utf-8"))
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(mutated(document, place, value)))
    with pytest.raises(TokenizerError) as caught:
        compile_tokenizer(tmp_path)
    assert str(caught.value).startswith(f"{path} is not a valid tokenizer.json (")
    assert said in str(caught.value)
    assert str(caught.value).endswith("): download the file again.")


def test_any_damage_to_a_vocabulary_and_its_merges(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "tokenizers"
    vocab = json.loads((source / "gpt2_vocab.json").read_text(encoding="utf-8"))
    merges = (source / "gpt2_merges.txt").read_text(encoding="utf-8").splitlines()[:100]
    last = vocab.pop("<|endoftext|>")
    vocab = {token: number for token, number in vocab.items() if number < KEPT}
    vocab["<|endoftext|>"] = last
    (tmp_path / "merges.txt").write_text("\n".join(merges), encoding="utf-8")
    for place, value in mutations(vocab)[:MUTATIONS]:
        (tmp_path / "vocab.json").write_text(json.dumps(mutated(vocab, place, value)))
        read_or_refused(tmp_path)
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    for line in ("Ġ", "Ġ t h", "Ġ \u2581", "\x00", "#"):
        (tmp_path / "merges.txt").write_text("\n".join([*merges, line]), encoding="utf-8")
        read_or_refused(tmp_path)


@pytest.mark.check
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_any_damage_to_a_sentencepiece_model(kind: str, tmp_path: Path) -> None:
    model = train_sentencepiece(
        model_type=kind, byte_fallback=kind == "bpe", vocab_size=600, user_defined_symbols=["<sep>"]
    )
    rng = random.Random(0)
    for _ in range(MUTATIONS):
        damaged = bytearray(model)
        for _ in range(rng.randrange(1, 4)):
            # The settings lie behind the pieces.
            at = rng.choice((rng.randrange(len(model)), len(model) - 1 - rng.randrange(300)))
            damaged[at] = rng.randrange(256)
        del damaged[rng.choice((len(model), len(model), rng.randrange(len(model)))) :]
        (tmp_path / "spiece.model").write_bytes(damaged)
        try:
            compile_tokenizer(tmp_path)
        except TokenizerError as error:
            assert is_one_sentence(error)


def read_or_refused(directory: Path) -> None:
    try:
        compile_tokenizer(directory)
        load_tokenizer(directory).encode(TEXT)
    except TokenizerError as error:
        assert is_one_sentence(error)


@pytest.mark.check
@pytest.mark.parametrize("name", ["tokenizer_config.json", "generation_config.json", "config.json"])
def test_any_damage_to_the_configs_beside_it(name: str, tmp_path: Path) -> None:
    """As the tokenizer reads them, and as the checkpoint does."""
    document = cut_short(json.loads((EMBEDDED / "tokenizer.json").read_text(encoding="utf-8")))
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    spec = read_specification(tmp_path)
    config = json.loads((EMBEDDED / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config))
    begin = {"content": "<|begin_of_text|>", "special": True}
    templates = [{"name": "default", "template": "{{ bos_token }}"}, {"name": "x", "template": ""}]
    fields: dict[str, Any] = {
        "tokenizer_config.json": {
            "bos_token": begin,
            "eos_token": "<|end_of_text|>",
            "add_bos_token": True,
            "chat_template": templates,
        },
        "generation_config.json": {"eos_token_id": [1, 2], "bos_token_id": 0},
        "config.json": config,
    }[name]
    for place, value in mutations(fields)[: 10 * MUTATIONS]:
        (tmp_path / name).write_text(json.dumps(mutated(fields, place, value)))
        for read in (
            lambda: read_configs(spec, tmp_path),
            lambda: find_chat_templates(tmp_path),
            lambda: read_config(tmp_path / "config.json"),
            lambda: read_model_config(tmp_path, None),
        ):
            try:
                read()
            except ExportError as error:
                assert is_one_sentence(error), (place, value)


def read_configs(spec: TokenizerSpec, directory: Path) -> None:
    """The files beside a tokenizer, of which the tokens are added and the ids applied."""
    special = read_special_tokens(directory)
    tokenizer_document(find_tokenizer(directory), special)
    apply_configs(replace(spec), special, directory, TokenizerKind.TOKENIZER_JSON)


@pytest.mark.check
@pytest.mark.parametrize("name", ["llama3", "thinking"])
def test_any_damage_to_a_chat_template(name: str) -> None:
    """One that no longer means anything is stored as text, with the reason."""
    source = (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")
    rng = random.Random(0)
    pieces = ["{{", "}}", "{%", "%}", "|", "(", ")", "[", "]", "'", "/ 0", "[9]", "\ud800", "2**9"]
    for _ in range(MUTATIONS):
        at, length = rng.randrange(len(source)), rng.choice((0, 1, 1, 8))
        damaged = source[:at] + rng.choice([*pieces, ""]) + source[at + length :]
        try:
            damaged.encode("utf-8")
        except UnicodeEncodeError:
            continue
        compiled = compile_chat_template(damaged, TOKENS)
        assert compiled.reduced or compiled.reason


@pytest.mark.parametrize(
    "source",
    ["{{ 1 / 0 }}", "{{ '%d' % 'x' }}", "{{ [][1].x.y }}", "{{ '\\ud800' }}", "{{ range(9**9) }}"],
)
def test_a_chat_template_that_fails_when_it_runs_is_stored_as_text(source: str) -> None:
    compiled = compile_chat_template(source + "{{ messages[0].content }}", TOKENS)
    assert not compiled.reduced and compiled.reason
