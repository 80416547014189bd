"""The special tokens that the files beside a tokenizer name, as `transformers` reads them.

`tokenizer_config.json` names tokens (`bos_token` and its like; `extra_special_tokens`, of old
`additional_special_tokens`) and lists added ones (`added_tokens_decoder`). Only if it lists none,
`special_tokens_map.json` and `added_tokens.json` are read as well.
"""

import re
import reprlib
from collections.abc import Container
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tokenizers import AddedToken

from exporter.json_object import read_object
from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.layout import MAX_VOCAB_SIZE
from exporter.tokenizer.tokenizer_class import COHERE, DEFAULT_TOKENS, QWEN2, class_of

CONFIG = "tokenizer_config.json"
NAMES = (
    *("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"),
)
_MAP, _ADDED = "special_tokens_map.json", "added_tokens.json"
_EXTRA, _OLD_EXTRA, _LISTED = (
    *("extra_special_tokens", "additional_special_tokens", "added_tokens_decoder"),
)
_FLAGS = ("special", "normalized", "lstrip", "rstrip", "single_word")

Json = dict[str, Any]
Token = AddedToken | str  # a string: special, without any other flag


@dataclass(frozen=True)
class SpecialTokens:
    """What the files beside a tokenizer say.

    Attributes:
        config: the fields of `tokenizer_config.json`; empty if there is none.
        model: those of `config.json`; likewise.
        kind: the class of `transformers` that reads the tokenizer; "" for the one that takes a
            `tokenizer.json` as it is.
        named: the tokens that have a name, which a chat template may use.
        extra: those without one.
        listed: added tokens with the ids that the files give them.
        unread: extra tokens of `special_tokens_map.json`, which `transformers` does not read beside
            a SentencePiece model.
        given: the names of which a file says which token they are, if only that there is none.
    """

    directory: Path
    config: Json = field(default_factory=dict)
    model: Json = field(default_factory=dict)
    kind: str = ""
    named: dict[str, Token] = field(default_factory=dict)
    extra: tuple[Token, ...] = ()
    listed: dict[int, AddedToken] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    given: frozenset[str] = frozenset()

    @property
    def names_class(self) -> bool:
        """Whether `tokenizer_config.json` says which class reads the tokenizer."""
        return isinstance(self.config.get("tokenizer_class"), str)

    @property
    def lists_all(self) -> bool:
        """Whether `tokenizer_config.json` lists all added tokens."""
        return _LISTED in self.config

    def with_defaults(self, tokens: dict[str, str]) -> "SpecialTokens":
        """The same with these named tokens where no file names one."""
        new = {name: token for name, token in tokens.items() if name not in self.given}
        named: dict[str, Token] = {**new, **self.named}
        order = dict.fromkeys((*NAMES, *named))
        return replace(self, named={name: named[name] for name in order if name in named})

    def text(self, name: str) -> str | None:
        """The text of a named token; None if there is none."""
        return content_of(self.named[name]) if name in self.named else None

    def check_ids(self, numbers: dict[str, int]) -> None:
        """Checks that each listed token has the id that the files give it.

        Args:
            numbers: the id of each added token in the tokenizer.

        Raises:
            TokenizerError: one has another.
        """
        for number, token in self.listed.items():
            if numbers.get(token.content, number) != number:
                where = f"{CONFIG}: {_LISTED}" if _LISTED in self.config else _ADDED
                raise TokenizerError(
                    f"{self.directory / where} gives {token.content!r} the id {number}, but in the "
                    f"tokenizer it has the id {numbers[token.content]}: download the files again."
                )

    def check_read(self, known: Container[str]) -> None:
        """Checks that a tokenizer that is no `tokenizer.json` has all tokens that are named.

        Raises:
            TokenizerError: one stands only where `transformers` does not read it.
        """
        for content in self.unread:
            if content not in known:
                raise TokenizerError(
                    f"{self.directory / _MAP}: {_OLD_EXTRA} names {content!r}, which "
                    "transformers 5 does not read beside this tokenizer: name it in the "
                    f"{_EXTRA} of {CONFIG}."
                )

    def to_add(self, present: list[AddedToken]) -> list[AddedToken]:
        """The tokens that `transformers` adds to a tokenizer with these, in its order: of several
        with one text the flags of the last one count. A token that has a name is special."""
        own = {} if self.lists_all else {token.content: token for token in present}
        named = [own.get(content_of(token), token) for token in self.named.values()]
        every = (*named, *self.extra)
        special = set(map(content_of, named))
        known = {token.content for token in present}
        new: list[Token] = [token for _, token in sorted(self.listed.items())]
        if not self.lists_all:
            new = [token for token in new if content_of(token) not in known]
            new += [token for token in present if not token.special and token.content in special]
        known |= {content_of(token) for token in new}
        new += [token for token in every if content_of(token) not in known]
        if self.kind == QWEN2:
            new += map(content_of, every)
        elif self.kind == COHERE:
            new += every
        shown = {repr(token) for token in present}
        added = [_added(token, content_of(token) in special) for token in new]
        return added if any(repr(token) not in shown for token in added) else []


def read_special_tokens(directory: Path, model_directory: Path | None = None) -> SpecialTokens:
    """Reads the files of a directory, of which none has to be there.

    Args:
        model_directory: the directory of `config.json`, if it is another one.

    Raises:
        TokenizerError: a file cannot be read, or a field has no such value (named).
    """
    fields = _read(directory / CONFIG)
    mapped = _read(directory / _MAP) if _LISTED not in fields else {}
    model = _read((model_directory or directory) / "config.json")
    kind = class_of(fields, directory, model)
    config = _Fields(directory / CONFIG, fields)
    named: dict[str, Token | None] = dict(DEFAULT_TOKENS.get(kind, {}))
    named |= config.named(special=False)
    extra = config.extra(_EXTRA) or config.extra(_OLD_EXTRA)
    own = config.of_object(_EXTRA)
    unread: list[Token] = []
    if mapped:
        later = _Fields(directory / _MAP, mapped)
        named |= later.named(special=True)
        extra += [token for token in later.extra(_EXTRA) if token not in extra]
        unread = [] if extra else later.extra(_OLD_EXTRA)
        own |= later.of_object(_EXTRA)
    named |= own
    listed = config.listed()
    if _LISTED not in fields:
        special = {content_of(token) for token in (*named.values(), *extra, *unread) if token}
        listed = _listed_apart(directory / _ADDED, special)
    written = {token.content: token for token in listed.values()}
    order = dict.fromkeys((*NAMES, *named))
    return SpecialTokens(
        directory=directory,
        config=fields,
        model=model,
        kind=kind,
        named={
            name: written.get(content_of(token), token)
            for name, token in ((name, named.get(name)) for name in order)
            if token is not None and content_of(token)
        },
        extra=tuple(token for token in (*extra, *unread) if content_of(token)),
        listed=listed,
        unread=tuple(map(content_of, unread)),
        given=frozenset(named),
    )


def padding_token(document: Json) -> dict[str, str]:
    """The `pad_token` that a `tokenizer.json` names in its padding, if it has any."""
    padding = document.get("padding")
    content = padding.get("pad_token") if isinstance(padding, dict) else None
    return {"pad_token": content} if isinstance(content, str) else {}


def content_of(token: Token) -> str:
    return token if isinstance(token, str) else str(token.content)


def _added(token: Token, named: bool) -> AddedToken:
    if isinstance(token, str):
        return AddedToken(token, special=True)
    if named and not token.special:
        token.special = True
    return token


def _read(path: Path) -> Json:
    return read_object(path, TokenizerError) if path.is_file() else {}


@dataclass(frozen=True)
class _Fields:
    """The fields of one of the files, by what they hold."""

    path: Path
    fields: Json

    def named(self, special: bool) -> dict[str, Token | None]:
        """`bos_token` and its like, and other fields that end so and hold a text or a token.

        Args:
            special: what an object is, whatever it says.
        """
        own = {
            name
            for name, value in self.fields.items()
            if name.endswith("_token") and (isinstance(value, str) or _is_token(value))
        }
        names = [name for name in self.fields if name in NAMES or name in own]
        return {name: self._token(name, self.fields[name], special) for name in names}

    def extra(self, name: str) -> list[Token]:
        value = self.fields.get(name)
        if value is None or isinstance(value, dict):
            return []
        if not isinstance(value, list):
            raise self._wrong(name, value, "a list of tokens, an object of them by name, or null")
        tokens = [self._token(name, item, True) for item in value]
        return [token for token in tokens if token is not None]

    def of_object(self, name: str) -> dict[str, Token | None]:
        """The tokens of an object that gives each a name of its own."""
        value = self.fields.get(name)
        if not isinstance(value, dict):
            return {}
        return {key: self._token(f"{name}.{key}", item, False) for key, item in value.items()}

    def listed(self) -> dict[int, AddedToken]:
        """The added tokens by id."""
        value = self.fields.get(_LISTED) or {}
        if not isinstance(value, dict):
            raise self._wrong(_LISTED, value, "an object of tokens by their ids")
        listed = {}
        for number, item in value.items():
            token = self._token(f"{_LISTED}.{number}", item, False)
            if not re.fullmatch(r"\d{1,9}", number) or int(number) >= MAX_VOCAB_SIZE:
                raise self._wrong(_LISTED, number, "an object whose names are token ids")
            if not isinstance(token, AddedToken):
                raise self._wrong(f"{_LISTED}.{number}", item, "an object with a token's content")
            listed[int(number)] = token
        return listed

    def _token(self, name: str, value: Any, special: bool) -> Token | None:
        if value is None:
            return None
        content = value.get("content") if isinstance(value, dict) else value
        if not isinstance(content, str):
            raise self._wrong(name, value, "a token's text, an object that holds it, or null")
        if any(0xD800 <= ord(character) < 0xE000 for character in content):
            raise self._wrong(name, value, "a text without an unpaired surrogate")
        if isinstance(value, str):
            return content
        flags = {flag: value[flag] for flag in _FLAGS if value.get(flag) is not None}
        for flag, on in flags.items():
            if not isinstance(on, bool):
                raise self._wrong(f"{name}.{flag}", on, "true or false")
        return AddedToken(content, **({**flags, "special": True} if special else flags))

    def _wrong(self, name: str, value: object, expected: str) -> TokenizerError:
        return TokenizerError(
            f"{self.path}: {name} is {reprlib.repr(value)}; it must be {expected}: download "
            "the file again."
        )


def _is_token(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("content"), str)


def _listed_apart(path: Path, special: set[str]) -> dict[int, AddedToken]:
    """The tokens of `added_tokens.json`, which gives nothing but their ids."""
    listed = {}
    for content, number in _read(path).items():
        if type(number) is not int or not 0 <= number < MAX_VOCAB_SIZE:
            raise TokenizerError(
                f"{path}: the id of {content!r} is {reprlib.repr(number)}; it must be a token id: "
                "download the file again."
            )
        is_special = content in special
        listed[number] = AddedToken(content, normalized=not is_special, special=is_special)
    return listed
