"""Reads the steps before BPE in a `tokenizer.json`: splitting and the leading space."""

from typing import Any

from exporter.tokenizer import code_points
from exporter.tokenizer.dfa import Splitter, compile_splitter
from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.pattern import Characters, Node, Sequence, parse_pattern
from exporter.tokenizer.sentencepiece_model import SPACE
from exporter.tokenizer.specification import SpacePrefix

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

Json = dict[str, Any]


def compile_byte_level_steps(steps: list[Json]) -> list[Splitter]:
    """Compiles the pre-tokenizers of byte-level BPE, in their order.

    Raises:
        TokenizerError: a step is not supported, or the last one is not ByteLevel.
    """
    if not steps or steps[-1]["type"] != "ByteLevel":
        raise _unsupported("pre-tokenizers that do not end in ByteLevel")
    splitters = []
    for step in steps:
        kind = step["type"]
        if kind == "Split":
            splitters.append(_split(step))
        elif kind == "Digits":
            digits = r"\p{N}" if step["individual_digits"] else r"\p{N}+"
            splitters.append(_compile(digits, keeps_gaps=True))
        elif kind == "ByteLevel":
            if step.get("add_prefix_space"):
                raise _unsupported("ByteLevel with add_prefix_space")
            if step.get("use_regex", True):
                splitters.append(_compile(GPT2_PATTERN, keeps_gaps=True))
        else:
            raise _unsupported(f"the pre-tokenizer {kind!r}")
    return splitters


def space_prefix(normalizers: list[Json], steps: list[Json]) -> tuple[SpacePrefix, bool]:
    """Returns where BPE over characters puts a space, and whether only before a non-space.

    Raises:
        TokenizerError: a step does more than SentencePiece's treatment of spaces.
    """
    prefix, unless_space, escapes = SpacePrefix.NONE, False, False
    for step in normalizers:
        if step["type"] == "Prepend" and step["prepend"] == SPACE and not escapes:
            prefix = SpacePrefix.EVERY_SEGMENT
        elif step["type"] == "Replace" and _replaces_space(step):
            escapes = True
        else:
            raise _unsupported(f"the normalizer {step['type']!r} in BPE over characters")
    for step in steps:
        if step["type"] == "Metaspace" and not escapes and step["replacement"] == SPACE:
            if step.get("split", True):
                raise _unsupported("Metaspace that splits")
            prefix = {
                "first": SpacePrefix.TEXT_START,
                "always": SpacePrefix.EVERY_SEGMENT,
                "never": SpacePrefix.NONE,
            }[step.get("prepend_scheme", "always")]
            escapes = unless_space = True
        elif step["type"] != "Split" or step["pattern"] != {"String": " "} or not escapes:
            # A split at spaces has no effect once they are escaped.
            raise _unsupported(f"the pre-tokenizer {step['type']!r} in BPE over characters")
    if not escapes:
        raise _unsupported("BPE over characters that does not escape spaces")
    return prefix, unless_space


def _replaces_space(step: Json) -> bool:
    return bool(step["pattern"] == {"String": " "} and step["content"] == SPACE)


def _split(step: Json) -> Splitter:
    behavior, invert = step["behavior"], bool(step.get("invert"))
    if behavior == "Isolated":
        keeps_gaps = True
    elif behavior == "Removed" and invert:
        keeps_gaps = False
    else:
        raise _unsupported(f"a Split with behavior {behavior!r} and invert = {invert}")
    pattern = step["pattern"]
    if "Regex" in pattern:
        return _compile(pattern["Regex"], keeps_gaps)
    characters: tuple[Node, ...] = tuple(
        Characters(code_points.of_text(character)) for character in pattern["String"]
    )
    return compile_splitter(Sequence(characters), keeps_gaps)


def _compile(pattern: str, keeps_gaps: bool) -> Splitter:
    return compile_splitter(parse_pattern(pattern, ruby_syntax=True), keeps_gaps)


def _unsupported(feature: str) -> TokenizerError:
    return TokenizerError(
        f"the tokenizer.json uses {feature}, which is not supported: Split (Isolated), Digits and "
        "ByteLevel are, or SentencePiece's escaped spaces."
    )
