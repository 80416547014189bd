"""Reads BPE from Hugging Face files: `tokenizer.json`, or GPT-2's `vocab.json` + `merges.txt`."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenizers.normalizers import NFC

from exporter.json_object import read_object
from exporter.tokenizer import split_steps
from exporter.tokenizer.byte_alphabet import byte_characters, token_to_bytes
from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.layout import LayoutError, check_document, check_vocab_and_merges
from exporter.tokenizer.sentencepiece_model import SPACE, character_symbols, spaces_only_lead
from exporter.tokenizer.source import TokenizerSource
from exporter.tokenizer.specification import AddedToken, Alphabet, SpacePrefix, TokenizerSpec

GPT2_END = "<|endoftext|>"

Json = dict[str, Any]


def read_tokenizer_json(path: Path) -> TokenizerSpec:
    """Reads a `tokenizer.json` into a spec.

    Raises:
        TokenizerError: the file is damaged, or uses an unsupported feature, which is named.
    """
    return read_document(read_object(path, TokenizerError), path)


def read_document(document: Json, path: Path) -> TokenizerSpec:
    """Reads what a `tokenizer.json` says into a spec.

    Raises:
        TokenizerError: it is damaged, or uses what is not supported; `path` is named.
    """
    try:
        check_document(document)
        return _read_document(document)
    except LayoutError as error:
        raise _damaged(path, str(error)) from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from None


def read_vocab_and_merges(source: TokenizerSource) -> TokenizerSpec:
    """Reads GPT-2's pair of files into a spec.

    Raises:
        TokenizerError: a file is missing or damaged.
    """
    vocab = read_object(source.path, TokenizerError)
    try:
        lines = source.merges_path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TokenizerError(
            f"the merges {source.merges_path} next to {source.path} cannot be read ({error}): both "
            "files are needed."
        ) from None
    model = {"vocab": vocab, "merges": [line for line in lines if not line.startswith("#version")]}
    try:
        check_vocab_and_merges(model)
    except LayoutError as error:
        raise _damaged(source.path, str(error)) from None
    if GPT2_END not in vocab:
        raise TokenizerError(
            f"{source.path} has no token {GPT2_END}; from vocab.json only GPT-2's vocabulary, "
            "which ends a text with it, is supported: use the model's tokenizer.json."
        )
    end = AddedToken(GPT2_END, vocab[GPT2_END], special=True)
    spec = _byte_level(model, [end], [{"type": "ByteLevel", "use_regex": True}])
    spec.bos_id = end.id
    spec.eos_ids = [end.id]
    return spec


def _read_document(document: Json) -> TokenizerSpec:
    model = document["model"]
    if model.get("type", "BPE") != "BPE":
        raise _unsupported(f"the model {model['type']!r}")
    for feature in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(feature):
            raise _unsupported(f"the BPE setting {feature} = {model[feature]!r}")
    added = [_added_token(token) for token in document.get("added_tokens") or []]
    steps = _flatten(document.get("pre_tokenizer"), "pretokenizers")
    normalizers = _flatten(document.get("normalizer"), "normalizers")
    if model.get("byte_fallback"):
        spec = _character_level(model, added, normalizers, steps)
    else:
        nfc = _wants_nfc(normalizers)
        spec = _byte_level(model, [_normalized(t) for t in added] if nfc else added, steps)
        spec.nfc = nfc
    bos_id = _first_of_template(document.get("post_processor"))
    if bos_id is not None:
        if bos_id >= len(spec.tokens):
            raise LayoutError(
                f"the post_processor begins a text with {bos_id}, which is not a token"
            )
        spec.bos_id, spec.adds_bos = bos_id, True
    return spec


def _byte_level(model: Json, added: list[AddedToken], steps: list[Json]) -> TokenizerSpec:
    vocab: dict[str, int] = model["vocab"]
    byte_symbols = [vocab.get(character, -1) for character in byte_characters()]
    if model.get("unk_token") and -1 in byte_symbols:
        raise _unsupported(f"the unknown token {model['unk_token']!r} in byte-level BPE")
    words = [token_id for token, token_id in vocab.items() if token_to_bytes(token) is not None]
    return TokenizerSpec(
        tokens=_decoded(vocab, added, _byte_level_text),
        alphabet=Alphabet.BYTES,
        byte_symbols=byte_symbols,
        merges=_listed_merges(model, vocab),
        whole_words=words if model.get("ignore_merges") else None,
        splitters=split_steps.compile_byte_level_steps(steps),
        added_tokens=added,
    )


def _character_level(
    model: Json, added: list[AddedToken], normalizers: list[Json], steps: list[Json]
) -> TokenizerSpec:
    vocab: dict[str, int] = model["vocab"]
    byte_symbols = [vocab.get(f"<0x{value:02X}>", -1) for value in range(256)]
    if -1 in byte_symbols or SPACE not in vocab:
        raise _unsupported("byte fallback without all 256 byte tokens and a token for the space")
    prefix, unless_space = split_steps.space_prefix(normalizers, steps)
    if any(token.normalized and not token.special for token in added):
        raise _unsupported("an added token that is searched in the normalized text")
    byte_tokens = {token: value for value, token in enumerate(byte_symbols)}

    def text(token: str, token_id: int) -> bytes:
        if token_id in byte_tokens:
            return bytes([byte_tokens[token_id]])
        return token.replace(SPACE, " ").encode("utf-8")

    tokens = _decoded(vocab, added, text)
    names = {token.content for token in added} | {f"<0x{value:02X}>" for value in range(256)}
    ordinary = {token: token_id for token, token_id in vocab.items() if token not in names}
    single = {token: token_id for token, token_id in ordinary.items() if len(token) == 1}
    return TokenizerSpec(
        tokens=tokens,
        alphabet=Alphabet.CHARACTERS,
        byte_symbols=byte_symbols,
        merges=_listed_merges(model, vocab),
        characters=character_symbols(single, len(tokens)),
        whole_words=None,
        added_tokens=[
            AddedToken(token.content, token.id, token.special, False, token.lstrip, token.rstrip)
            for token in added
        ],
        space_prefix=prefix,
        space_prefix_unless_space=unless_space,
        strips_first_space=prefix is not SpacePrefix.NONE,
        words_begin_at_spaces=spaces_only_lead(ordinary) and not model.get("ignore_merges"),
    )


def _listed_merges(model: Json, vocab: dict[str, int]) -> list[tuple[int, int, int, int]]:
    merges: dict[tuple[int, int], tuple[int, int]] = {}
    for rank, merge in enumerate(model["merges"]):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        merges[vocab[left], vocab[right]] = rank, vocab[left + right]
    return [(*pair, *outcome) for pair, outcome in merges.items()]


def _decoded(
    vocab: dict[str, int], added: list[AddedToken], text: Callable[[str, int], bytes]
) -> list[bytes]:
    """Returns each id's bytes in decoded text: empty for a special token and an unused id."""
    ids = [*vocab.values(), *(token.id for token in added)]
    tokens = [b""] * (max(ids) + 1)
    for content, token_id in vocab.items():
        tokens[token_id] = text(content, token_id)
    for token in added:
        tokens[token.id] = b"" if token.special else text(token.content, token.id)
    return tokens


def _byte_level_text(token: str, _: int) -> bytes:
    # The reference decodes a token outside the alphabet (an added token) to its own text.
    decoded = token_to_bytes(token)
    return token.encode("utf-8") if decoded is None else decoded


def _added_token(token: Json) -> AddedToken:
    if token.get("single_word"):
        raise _unsupported(f"the added token {token['content']!r} with single_word")
    return AddedToken(
        content=token["content"],
        id=token["id"],
        special=bool(token.get("special")),
        normalized=bool(token.get("normalized")),
        lstrip=bool(token.get("lstrip")),
        rstrip=bool(token.get("rstrip")),
    )


def _normalized(token: AddedToken) -> AddedToken:
    """Returns a token that is searched in normalized text: the reference normalizes it as well."""
    if not token.normalized:
        return token
    return replace(token, content=NFC().normalize_str(token.content))


def _wants_nfc(normalizers: list[Json]) -> bool:
    for step in normalizers:
        if step["type"] != "NFC":
            raise _unsupported(f"the normalizer {step['type']!r} in byte-level BPE")
    return bool(normalizers)


def _first_of_template(processor: Json | None) -> int | None:
    """Returns the token that the reference puts before a text; None if it puts none."""
    for step in _flatten(processor, "processors"):
        if step["type"] == "TemplateProcessing" and "SpecialToken" in step["single"][0]:
            name = step["single"][0]["SpecialToken"]["id"]
            ids = step["special_tokens"][name]["ids"]
            if len(ids) > 1 or any("SpecialToken" in part for part in step["single"][1:2]):
                raise _unsupported("several tokens before every text")
            return ids[0]
    return None


def _flatten(step: Json | None, parts: str) -> list[Json]:
    if step is None:
        return []
    if step["type"] != "Sequence":
        return [step]
    return [inner for part in step[parts] for inner in _flatten(part, parts)]


def _damaged(path: Path, why: str) -> TokenizerError:
    return TokenizerError(f"{path} is not a valid {path.name} ({why}): download the file again.")


def _unsupported(feature: str) -> TokenizerError:
    return TokenizerError(
        f"the tokenizer.json uses {feature}, which is not supported: byte-level BPE and BPE over "
        "characters with byte fallback are."
    )
