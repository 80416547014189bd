"""Reads Meta's Llama 3 `tokenizer.model`: tiktoken ranks, a base64 token and its rank per line."""

import binascii
from pathlib import Path

from exporter.tokenizer.dfa import compile_splitter
from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.pattern import parse_pattern
from exporter.tokenizer.specification import AddedToken, Alphabet, TokenizerSpec

LLAMA3_RANKS = 128000
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPECIAL_COUNT = 256
# The file has no special tokens: Meta's code has, in this order, then the reserved ones.
_NAMED_SPECIALS = (
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
_END_NAMES = ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>")


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


def llama3_specials() -> dict[str, int]:
    """Returns the names and ids of Llama 3's 256 special tokens."""
    reserved = _SPECIAL_COUNT - len(_NAMED_SPECIALS)
    names = [
        *_NAMED_SPECIALS,
        *(f"<|reserved_special_token_{2 + number}|>" for number in range(reserved)),
    ]
    return {name: LLAMA3_RANKS + number for number, name in enumerate(names)}


def read_tiktoken(path: Path) -> TokenizerSpec:
    """Reads Llama 3's ranks into a spec.

    Raises:
        TokenizerError: the file is damaged or is not Llama 3's. Such a file has neither a split
            pattern nor special tokens, so only Llama 3's are known.
    """
    ranks = read_ranks(path)
    if len(ranks) != LLAMA3_RANKS:
        raise TokenizerError(
            f"{path} has {len(ranks)} tiktoken ranks; only Llama 3's {LLAMA3_RANKS} are supported, "
            "because the file does not hold the split pattern and special tokens: use the model's "
            "tokenizer.json."
        )
    specials = llama3_specials()
    tokens = [b""] * len(ranks)
    for token, rank in ranks.items():
        tokens[rank] = token
    pattern = parse_pattern(LLAMA3_PATTERN, ruby_syntax=False)
    return TokenizerSpec(
        tokens=tokens + [b""] * len(specials),
        alphabet=Alphabet.BYTES,
        byte_symbols=[ranks[bytes([value])] for value in range(256)],
        merges=_merges(ranks),
        whole_words=list(range(len(ranks))),
        splitters=[compile_splitter(pattern, keeps_gaps=False)],
        added_tokens=[AddedToken(name, number, special=True) for name, number in specials.items()],
        bos_id=specials["<|begin_of_text|>"],
        adds_bos=True,
        eos_ids=[specials[name] for name in _END_NAMES],
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
