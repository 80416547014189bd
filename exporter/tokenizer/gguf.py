"""The tokenizer and the chat template in a GGUF file's metadata, as the files they came from.

`tokenizer.ggml.model` is `gpt2` for byte-level BPE or `gemma4` for BPE over characters, which
become a tokenizer.json, or `llama` for SentencePiece's BPE, which becomes a SentencePiece model;
all are then read as such.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

from sentencepiece import sentencepiece_model_pb2

from exporter.catalogue.gguf_file import GgufFile
from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.huggingface import read_document
from exporter.tokenizer.sentencepiece_model import SPACE, read_model
from exporter.tokenizer.specification import AddedToken, TokenizerSpec
from exporter.tokenizer.split_patterns import (
    DEEPSEEK3_PATTERNS,
    DEEPSEEK_CODER_PATTERNS,
    GPT4O_PATTERN,
    LLAMA3_PATTERN,
    QWEN2_PATTERN,
    QWEN35_PATTERN,
    SEED_PATTERN,
    TEKKEN_PATTERN,
)

_PROTOS: Any = sentencepiece_model_pb2  # protobuf builds its classes at run time
_ENDS = ("eos", "eot", "eom")
_BAR, _BLANK = "\uff5c", "\u2581"
# Tokens that end a text, by their own: many files name only the one that ends a document.
_END_TEXTS = (
    *("<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|end_of_text|>", "<|endoftext|>"),
    *("<end_of_turn>", "<turn|>", "<|tool_response>", "<|return|>", "<|call|>", "<|calls|>"),
    *("</s>", "<eos>", "<|eot|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|flush|>", "[e~["),
    *("<end_of_utterance>", f"<{_BAR}end{_BLANK}of{_BLANK}sentence{_BAR}>"),
    *("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]", "<|file_sep|>"),
    *("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
)
_MIDDLES = (  # of filling in the middle
    *("prefix", "suffix", "middle", "pad", "repo", "sep"),
    *("begin", "hole", "end"),
)
# What llama.cpp takes for control tokens, whatever type the file gives them.
_CONTROL_TEXTS = {
    *_END_TEXTS,
    *(f"<|fim_{part}|>" for part in _MIDDLES),
    *(f"<fim{sign}{part}>" for sign in "-_" for part in _MIDDLES),
    *(f"<{_BAR}fim{_BLANK}{part}{_BAR}>" for part in _MIDDLES),
    *(f"{blank}<{part}>" for blank in ("", _BLANK) for part in ("PRE", "SUF", "MID")),
    *(f"<|{code}{part}|>" for code in ("", "code_") for part in ("prefix", "suffix", "middle")),
}
_IDS = {"bos": 1, "eos": 2}  # of SentencePiece, where the file names none
_ENDS_NO_TEXT = ("<|tool_response>", "<|plamo:eos|>")  # where one is, </s> is an ordinary token
_TAKE_BLANKS = ("phi-3", "phi3")  # models, by name, whose tokens take the blanks behind them along
_KEEP_BLANKS = ("<unk>", "<s>", "<|endoftext|>")  # all but these
_OF_A_CHANNEL = "<|end|>"  # where there is the next: what follows is another channel of the answer
_OF_CHANNELS = "<|return|>"


class _Type(IntEnum):
    """`tokenizer.ggml.token_type`, which are SentencePiece's types of pieces."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class _Split:
    """What one `tokenizer.ggml.pre` stands for.

    Attributes:
        pattern: pieces of text; None: GPT-2's.
        first: patterns that split it before.
        digits: whether each digit is first split off.
        nfc: whether text is first normalized to Unicode's form C.
        whole_words: whether a piece that is a token is not merged.
        adds_bos: whether a text begins with BOS if the file does not say.
        characters: whether characters are merged, not bytes, and blanks are first replaced; there
            is no pattern.
        joins_marks: whether combining marks are part of a word.
    """

    pattern: str | None = None
    first: tuple[str, ...] = ()
    digits: bool = False
    nfc: bool = False
    whole_words: bool = False
    adds_bos: bool = False
    characters: bool = False
    joins_marks: bool = False

    def notes(self) -> list[str]:
        """What the model's own tokenizer does, and we, but llama.cpp does not."""
        differs = "as the model's own tokenizer does, and llama.cpp does not."
        said = {
            f"The tokenizer first puts texts into Unicode's form C, {differs}": self.nfc,
            "The tokenizer keeps combining marks, such as vowel signs of Hindi and Thai, in their "
            f"words, {differs}": self.joins_marks,
        }
        return [note for note, holds in said.items() if holds]


_SPLITS = {
    name: split
    for split, names in {
        _Split(): "gpt-2 phi-2 mpt olmo exaone4 mellum a.x-4.0 trillion granite-docling",
        _Split(digits=True): (
            "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2"
        ),
        _Split(LLAMA3_PATTERN, whole_words=True, adds_bos=True): (
            "llama3 llama-v3 llama-bpe falcon3 lfm2 pixtral midm-2.0"
        ),
        _Split(LLAMA3_PATTERN): "dbrx smaug-bpe chatglm-bpe",
        _Split(LLAMA3_PATTERN, whole_words=True): "glm4",
        _Split(QWEN2_PATTERN, nfc=True): "qwen2 deepseek-r1-qwen",
        _Split(QWEN2_PATTERN): "stablelm2 hunyuan megrez kormo",
        _Split(DEEPSEEK3_PATTERNS[-1], DEEPSEEK3_PATTERNS[:-1]): "hunyuan-dense deepseek-v3",
        _Split(DEEPSEEK_CODER_PATTERNS[-1], DEEPSEEK_CODER_PATTERNS[:-1]): "deepseek-coder",
        _Split(SEED_PATTERN): "seed-coder",
        _Split(QWEN35_PATTERN, nfc=True): "qwen35",
        _Split(TEKKEN_PATTERN, whole_words=True, adds_bos=True, joins_marks=True): "tekken",
        _Split(GPT4O_PATTERN, joins_marks=True): "gpt-4o",
        _Split(adds_bos=True, characters=True): "gemma4",
    }.items()
    for name in names.split()
}
_OF_CHARACTERS: dict[str, Any] = {  # the steps around the merges of characters
    "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
    "pre_tokenizer": None,
    "decoder": {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
        ],
    },
}


def read_gguf(path: Path) -> TokenizerSpec:
    """Reads the tokenizer of a GGUF file into a spec; the file says which tokens begin and end.

    Raises:
        TokenizerError: there is none, it is damaged, or its kind is not supported (named).
    """
    stored = _Stored.read(path)
    if stored.is_document:
        spec = read_document(stored.document(), path)
        spec.notes += stored.split().notes()
        adds_bos = stored.split().adds_bos
    else:
        spec, adds_bos = stored.sentencepiece_spec(), True
    if any(name in stored.name.lower() for name in _TAKE_BLANKS):
        spec.added_tokens = [
            token if token.content in _KEEP_BLANKS else replace(token, rstrip=True)
            for token in spec.added_tokens
        ]
    spec.bos_id = stored.id_of("bos")
    spec.adds_bos = stored.flag("add_bos_token", adds_bos)
    if spec.adds_bos and spec.bos_id is None:
        spec.adds_bos = False
        spec.notes.append("texts should begin with BOS, but the GGUF file does not name it.")
    spec.eos_ids = stored.ends()
    spec.ends_texts = stored.flag("add_eos_token", False) and stored.id_of("eos") is not None
    return spec


def reference_document(path: Path) -> dict[str, Any] | None:
    """The tokenizer.json of a file with BPE of its own; None of one with SentencePiece's."""
    stored = _Stored.read(path)
    return stored.document() if stored.is_document else None


def reference_model(path: Path) -> bytes:
    """The SentencePiece model of a file that has one."""
    return bytes(_Stored.read(path).sentencepiece_model().SerializeToString())


@dataclass(frozen=True)
class _Stored:
    """The tokenizer's part of the metadata, without the `tokenizer.ggml.` before its names."""

    path: Path
    fields: dict[str, Any]
    model: str
    tokens: list[str]
    types: list[int]
    name: str

    @classmethod
    def read(cls, path: Path) -> "_Stored":
        prefix = "tokenizer.ggml."
        metadata = GgufFile(path).metadata
        fields = {k.removeprefix(prefix): v for k, v in metadata.items() if k.startswith(prefix)}
        model = fields.get("model")
        if model not in ("gpt2", "gemma4", "llama"):
            raise TokenizerError(
                f"{path}: tokenizer.ggml.model {model!r} is not supported; gpt2 (byte-level BPE), "
                "gemma4 (BPE over characters) and llama (SentencePiece) are: give the model's own "
                "tokenizer with --tokenizer."
            )
        tokens, types = fields.get("tokens"), fields.get("token_type")
        if not _is_list(tokens, str) or not tokens:
            raise _damaged(path, "tokens is not a list of strings")
        types = [int(_Type.NORMAL)] * len(tokens) if types is None else types
        if not _is_list(types, int) or len(types) != len(tokens):
            raise _damaged(path, "token_type does not give a type for each token")
        types = _with_control_tokens(tokens, types)
        return cls(path, fields, model, tokens, types, str(metadata.get("general.name", "")))

    @property
    def is_document(self) -> bool:
        """Whether it becomes a tokenizer.json."""
        return self.model != "llama"

    def id_of(self, name: str) -> int | None:
        """The id that a field names."""
        token = self.fields.get(f"{name}_token_id", None if self.is_document else _IDS.get(name))
        if token is None or token == 2**32 - 1:  # some files mean by this that there is none
            return None
        if type(token) is not int or not 0 <= token < len(self.tokens):
            raise _damaged(self.path, f"{name}_token_id {token!r} is not a token")
        return token

    def flag(self, name: str, default: bool) -> bool:
        value = self.fields.get(name, default)
        if not isinstance(value, bool):
            raise _damaged(self.path, f"{name} is {value!r}, neither true nor false")
        return value

    def ends(self) -> list[int]:
        """The tokens that end a text, those that the file names first."""
        named = [token for token in map(self.id_of, _ENDS) if token is not None]
        added = [*self._of_type(_Type.CONTROL), *self._of_type(_Type.USER_DEFINED)]
        texts = {self.tokens[id]: id for id in added}
        known = [texts[text] for text in _ends_of(self.tokens) if text in texts]
        if _OF_CHANNELS in texts:
            known = [id for id in known if self.tokens[id] != _OF_A_CHANNEL]
        return list(dict.fromkeys(named + sorted(known)))

    def split(self) -> _Split:
        pre = "gemma4" if self.model == "gemma4" else self.fields.get("pre")
        if not isinstance(pre, str) or pre not in _SPLITS:
            raise TokenizerError(
                f"{self.path}: tokenizer.ggml.pre {pre!r} is not a known way of splitting "
                f"text; {', '.join(_SPLITS)} are: give the model's own tokenizer with --tokenizer."
            )
        return _SPLITS[pre]

    def document(self) -> dict[str, Any]:
        """The equivalent tokenizer.json of BPE."""
        split = self.split()
        merges: Any = self.fields.get("merges")
        if not _is_list(merges, str):
            raise _damaged(self.path, "merges is not a list of strings")
        merged = {merge.replace(" ", "", 1) for merge in merges}
        absent = {
            id
            for id in self._of_type(_Type.UNUSED)
            if len(self.tokens[id]) > 1 and self.tokens[id] not in merged
        }
        unknown = self.id_of("unknown") if split.characters else None
        return {
            "version": "1.0",
            "added_tokens": [self._added_token(id) for id in self._added()],
            **(_OF_CHARACTERS if split.characters else _of_bytes(split)),
            "post_processor": None,
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None if unknown is None else self.tokens[unknown],
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": split.characters,
                "byte_fallback": split.characters,
                "ignore_merges": split.whole_words,
                "vocab": {t: id for id, t in enumerate(self.tokens) if id not in absent},
                "merges": merges,
            },
        }

    def sentencepiece_model(self) -> Any:
        """The SentencePiece model that the file was converted from."""
        scores: Any = self.fields.get("scores", [0.0] * len(self.tokens))
        if not _is_list(scores, float) or len(scores) != len(self.tokens):
            raise _damaged(self.path, "scores does not give a score for each token")
        unknown = self.id_of("unknown") or 0
        model = _PROTOS.ModelProto()
        pieces = zip(self.tokens, scores, self.types, strict=True)
        for id, (token, score, type) in enumerate(pieces):
            text = token.replace(" ", SPACE) if type == _Type.USER_DEFINED else token
            if id == unknown:  # some converters make it a control token
                type = _Type.UNKNOWN
            elif type == _Type.UNKNOWN:  # and give this type to ids without a token
                type = _Type.UNUSED
            model.pieces.add(piece=text, score=score, type=_type(type))
        trainer, normalizer = model.trainer_spec, model.normalizer_spec
        trainer.model_type = _PROTOS.TrainerSpec.BPE
        trainer.byte_fallback = True
        trainer.vocab_size = len(self.tokens)
        trainer.unk_id = unknown
        trainer.bos_id = -1
        trainer.eos_id = -1
        trainer.pad_id = -1
        normalizer.name = "identity"
        normalizer.add_dummy_prefix = self.flag("add_space_prefix", True)
        normalizer.remove_extra_whitespaces = False  # whatever the file says, as in llama.cpp
        normalizer.escape_whitespaces = True
        return model

    def sentencepiece_spec(self) -> TokenizerSpec:
        """Reads unused pieces as control tokens that no text contains; the reader has no others.

        User-defined ones are found as control tokens are: before a blank is put first.
        """
        model = self.sentencepiece_model()
        unused = {id for id, piece in enumerate(model.pieces) if piece.type == _Type.UNUSED}
        for id in unused:
            model.pieces[id].type = _Type.CONTROL
        spec = read_model(model, self.path)
        spec.added_tokens = [
            AddedToken(self.tokens[id], id, special=self.types[id] != _Type.USER_DEFINED)
            for id in self._added()
        ]
        return spec

    def _added(self) -> list[int]:
        """The tokens that are found before all others, unknown ones as control tokens are."""
        types = (_Type.UNKNOWN, _Type.CONTROL, _Type.USER_DEFINED)
        return [id for id, type in enumerate(self.types) if type in types and self.tokens[id]]

    def _of_type(self, type: _Type) -> list[int]:
        return [id for id, of in enumerate(self.types) if of == type and self.tokens[id]]

    def _added_token(self, id: int) -> dict[str, Any]:
        special = self.types[id] != _Type.USER_DEFINED
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        return {"id": id, "content": self.tokens[id], **flags, "special": special}


def _of_bytes(split: _Split) -> dict[str, Any]:
    """The steps around the merges of bytes."""
    steps: list[dict[str, Any]] = []
    if split.digits:
        steps.append({"type": "Digits", "individual_digits": True})
    for pattern in (*split.first, split.pattern):
        if pattern is None:
            continue
        regex = {"Regex": pattern}
        steps.append({"type": "Split", "pattern": regex, "behavior": "Isolated", "invert": False})
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    steps.append({**byte_level, "use_regex": split.pattern is None})
    return {
        "normalizer": {"type": "NFC"} if split.nfc else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "decoder": {**byte_level, "use_regex": True},
    }


def _ends_of(tokens: list[str]) -> list[str]:
    """The texts of tokens that end a text, among such tokens."""
    exempt = {"</s>"} if any(one in tokens for one in _ENDS_NO_TEXT) else set()
    return [text for text in _END_TEXTS if text not in exempt]


def _with_control_tokens(tokens: list[str], types: list[int]) -> list[int]:
    """The types as llama.cpp reads them: it knows some control tokens by their texts, and overrides
    any other type of theirs."""
    known = (_CONTROL_TEXTS - set(_END_TEXTS)) | set(_ends_of(tokens))
    return [
        _Type.CONTROL if token in known else type for token, type in zip(tokens, types, strict=True)
    ]


def _is_list(value: Any, of: type) -> bool:
    return isinstance(value, list) and all(type(item) is of for item in value)


def _type(number: int) -> int:
    return number if number in _Type.__members__.values() else _Type.NORMAL


def _damaged(path: Path, why: str) -> TokenizerError:
    return TokenizerError(f"{path}: tokenizer.ggml.{why}; download the file again.")
