"""Small tokenizers of several families, trained on this project's own sources."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_SPLIT = LLAMA3_SPLIT.replace("{1,3}", "")
POSSESSIVE_SPLIT = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
CASED_SPLIT = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SAMPLES = (
    "naïve café Ångström ",
    "日本語の文章 中文 한국어 가각간 ",
    "don't WE'LL I'm ",
    "éèê 12345 ",
)
_VOCAB_SIZE = 700


@cache
def train_llama3() -> str:
    """As Llama 3's: whole words are not merged, and the text begins with BOS."""
    tokenizer = _train([_split(LLAMA3_SPLIT), _byte_level()], ["<|begin_of_text|>", "<|eot_id|>"])
    begin = ("<|begin_of_text|>", tokenizer.token_to_id("<|begin_of_text|>"))
    template = processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[begin])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(), template])
    document = json.loads(tokenizer.to_str())
    document["model"]["ignore_merges"] = True
    # A word that no sequence of merges reaches.
    document["model"]["vocab"]["zqzqz"] = tokenizer.get_vocab_size()
    return json.dumps(document)


@cache
def train_qwen2() -> str:
    """As Qwen2's: normalization form C, and added tokens that are not special."""
    tokenizer = _train([_split(QWEN2_SPLIT), _byte_level()], ["<|endoftext|>", "<|im_start|>"])
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens(
        [
            AddedToken("<tool_call>", normalized=False),
            AddedToken("<tool>", normalized=True),
            AddedToken("<tool>é\u0301", normalized=True),
            AddedToken("<e\u0301>", normalized=True),
        ]
    )
    return tokenizer.to_str()


@cache
def train_digits() -> str:
    """As SmolLM's: single digits, then GPT-2's pattern; added tokens that take blanks along."""
    steps = [pre_tokenizers.Digits(individual_digits=True), _byte_level(use_regex=True)]
    tokenizer = _train(steps, ["<|endoftext|>"])
    tokenizer.add_tokens(
        [
            AddedToken("<mask>", lstrip=True, normalized=False),
            AddedToken("<sep>", rstrip=True, normalized=False),
            AddedToken("<both>", lstrip=True, rstrip=True, normalized=False),
        ]
    )
    return tokenizer.to_str()


@cache
def train_possessive() -> str:
    """A pattern with possessive quantifiers and `$`."""
    return _train([_split(POSSESSIVE_SPLIT), _byte_level()], ["<s>"]).to_str()


@cache
def train_cased() -> str:
    """A pattern that tells the cases of letters apart, as Mistral's tekken."""
    return _train([_split(CASED_SPLIT), _byte_level()], ["<s>", "[INST]"]).to_str()


@cache
def train_dropping() -> str:
    """A pattern that drops what it does not match, and a vocabulary that lacks most bytes."""
    split = pre_tokenizers.Split(Regex(r"\p{L}+|\p{N}{2}"), "removed", invert=True)
    return _train([split, _byte_level()], ["<s>"], all_bytes=False).to_str()


@cache
def train_prepending() -> str:
    """As Llama 2's `tokenizer.json`: each stretch of text begins with an escaped space."""
    replace = normalizers.Replace(" ", "▁")
    document = _with_byte_fallback(_train_characters())
    document["normalizer"] = json.loads(
        _component(normalizer=normalizers.Sequence([normalizers.Prepend("▁"), replace]))
    )["normalizer"]
    document["pre_tokenizer"] = None
    return json.dumps(document)


@cache
def train_metaspace() -> str:
    """As the newer form of it: only the text itself begins with one, unless it already does."""
    document = _with_byte_fallback(_train_characters())
    metaspace = pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False)
    document["pre_tokenizer"] = json.loads(_component(pre_tokenizer=metaspace))["pre_tokenizer"]
    return json.dumps(document)


TRAINERS: dict[str, Callable[[], str]] = {
    "llama3": train_llama3,
    "qwen2": train_qwen2,
    "digits": train_digits,
    "possessive": train_possessive,
    "cased": train_cased,
    "dropping": train_dropping,
    "prepending": train_prepending,
    "metaspace": train_metaspace,
}


def training_text() -> list[str]:
    """Prose and code that seldom change (the embedded model's), and some other writing."""
    package = Path(__file__).resolve().parents[2] / "exporter"
    text = (package / "embedded" / "calibration.txt").read_text(encoding="utf-8")
    return [text[:50_000], text[-100_000:], *(sample * 20 for sample in _SAMPLES)]


def _split(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def _byte_level(use_regex: bool = False) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def _train(
    steps: list[pre_tokenizers.PreTokenizer], specials: list[str], all_bytes: bool = True
) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet() if all_bytes else []
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCAB_SIZE,
        special_tokens=specials,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(training_text(), trainer)
    return tokenizer


def _train_characters() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="always", split=True)
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", left=1, right=0),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCAB_SIZE, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False
    )
    tokenizer.train_from_iterator(training_text(), trainer)
    return tokenizer


def _with_byte_fallback(tokenizer: Tokenizer) -> dict:
    document = json.loads(tokenizer.to_str())
    size = tokenizer.get_vocab_size()
    for value in range(256):
        document["model"]["vocab"][f"<0x{value:02X}>"] = size + value
    document["model"].update(byte_fallback=True, unk_token="<unk>", fuse_unk=True)
    return document


def _component(**parts: object) -> str:
    tokenizer = Tokenizer(models.BPE())
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    return tokenizer.to_str()
