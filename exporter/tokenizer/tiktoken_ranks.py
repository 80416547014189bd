"""Reads files of tiktoken ranks: one base64 token and its rank a line (Llama 3's, Qwen's).

Such a file holds neither its split pattern nor its special tokens: the publisher's code does. The
known families are distinguished by their number of ranks.
"""

import binascii
from dataclasses import dataclass
from pathlib import Path

from exporter.tokenizer.dfa import compile_automaton
from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.normalization_forms import Form
from exporter.tokenizer.pattern import parse_pattern
from exporter.tokenizer.specification import (
    AddedToken,
    Behavior,
    Bpe,
    Decoder,
    Normalize,
    Split,
    TokenizerSpec,
)
from exporter.tokenizer.split_patterns import LLAMA3_PATTERN, QWEN2_PATTERN


@dataclass(frozen=True)
class RanksFamily:
    """What the publisher's code adds to a file of ranks.

    Attributes:
        pattern: splits the text, in the syntax of Rust's engines.
        specials: the names of the special tokens, numbered after the ranks.
        begin: the one that begins a text; ends: those that end it.
        form: how a text is normalized.
    """

    name: str
    pattern: str
    specials: tuple[str, ...]
    begin: str | None
    ends: tuple[str, ...]
    form: Form | None = None


_LLAMA3_NAMED = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|reserved_special_token_0|>",
    "<|reserved_special_token_1|>",
    "<|finetune_right_pad_id|>",
    "<|step_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
    "<|image|>",
)
FAMILIES = {
    128000: RanksFamily(
        "Llama 3",
        LLAMA3_PATTERN,
        (
            *_LLAMA3_NAMED,
            *(f"<|reserved_special_token_{2 + number}|>" for number in range(244)),
        ),
        "<|begin_of_text|>",
        ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"),
    ),
    151643: RanksFamily(
        "Qwen",
        QWEN2_PATTERN,
        (
            *("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
            *(f"<|extra_{number}|>" for number in range(205)),
        ),
        None,
        ("<|endoftext|>", "<|im_end|>"),
        Form.NFC,
    ),
}


def read_ranks(path: Path) -> dict[bytes, int]:
    """Returns token -> rank.

    Raises:
        TokenizerError: a line is damaged, the ranks have a gap, or a byte has no token.
    """
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        token, _, rank = line.partition(b" ")
        try:
            ranks[binascii.a2b_base64(token, strict_mode=True)] = int(rank)
        except (binascii.Error, ValueError):
            raise TokenizerError(
                f"line {number} of {path} is not a base64 token with its rank: download the file "
                "again."
            ) from None
    if sorted(ranks.values()) != list(range(len(ranks))):
        raise TokenizerError(
            f"the ranks in {path} do not run from 0 to {len(ranks) - 1} without a gap: download "
            "the file again."
        )
    if any(bytes([value]) not in ranks for value in range(256)):
        raise TokenizerError(f"{path} has no token for some single byte: download the file again.")
    return ranks


def family_of(ranks: dict[bytes, int], path: Path) -> RanksFamily:
    """Returns the family of these ranks.

    Raises:
        TokenizerError: no known family has so many ranks.
    """
    if len(ranks) not in FAMILIES:
        known = " and ".join(f"{family.name}'s {count}" for count, family in FAMILIES.items())
        raise TokenizerError(
            f"{path} has {len(ranks)} tiktoken ranks; only {known}, whose split patterns and "
            "special tokens are known, are supported: use the model's tokenizer.json."
        )
    return FAMILIES[len(ranks)]


def specials_of(family: RanksFamily, ranks: dict[bytes, int]) -> dict[str, int]:
    """The names and ids of a family's special tokens."""
    return {name: len(ranks) + number for number, name in enumerate(family.specials)}


def read_tiktoken(path: Path) -> TokenizerSpec:
    """Reads ranks into a spec.

    Raises:
        TokenizerError: the file is damaged, or of an unknown family.
    """
    ranks = read_ranks(path)
    family = family_of(ranks, path)
    specials = specials_of(family, ranks)
    tokens = [b""] * (len(ranks) + len(specials))
    for token, rank in ranks.items():
        tokens[rank] = token
    automaton = compile_automaton(parse_pattern(family.pattern, ruby_syntax=False))
    return TokenizerSpec(
        decoder=Decoder(texts=tokens, skipped=list(specials.values())),
        model=Bpe(
            byte_symbols=[ranks[bytes([value])] for value in range(256)],
            merges=_merges(ranks),
            whole_words=ranks,
        ),
        normalizers=[] if family.form is None else [Normalize(family.form)],
        pre_tokenizers=[Split(automaton, Behavior.REMOVED, inverted=True)],
        added_tokens=[AddedToken(name, number, special=True) for name, number in specials.items()],
        bos_id=None if family.begin is None else specials[family.begin],
        adds_bos=family.begin is not None,
        eos_ids=[specials[name] for name in family.ends],
    )


def _merges(ranks: dict[bytes, int]) -> list[tuple[int, int, int, int]]:
    """Returns every pair of tokens that forms a token: tiktoken merges any of them, lowest rank
    first."""
    merges = []
    for token, rank in ranks.items():
        for cut in range(1, len(token)):
            left = ranks.get(token[:cut])
            if left is None:
                continue
            right = ranks.get(token[cut:])
            if right is not None:
                merges.append((left, right, rank, rank))
    return merges
