"""Reads the pre-tokenizers of a `tokenizer.json`: what splits a text before the model."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tokenizers import pre_tokenizers

from exporter.tokenizer import code_points
from exporter.tokenizer.code_points import CodePointSet
from exporter.tokenizer.dfa import Automaton, compile_automaton
from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.pattern import Characters, Node, Repeat, Sequence, parse_pattern
from exporter.tokenizer.scripts import script_runs
from exporter.tokenizer.specification import (
    Behavior,
    Bytes,
    Prepend,
    Replace,
    Spaces,
    Split,
    Step,
)
from exporter.tokenizer.split_patterns import GPT2_PATTERN

_WORDS_PATTERN = r"\w+|[^\w\s]+"
SPACE = "\u2581"  # how SentencePiece writes a space

Json = dict[str, Any]


def pre_tokenizer_steps(steps: list[Json]) -> list[Step]:
    """Compiles pre-tokenizers, each with all its settings, in their order.

    Raises:
        TokenizerError: one that is not supported, or a pattern that cannot be compiled.
    """
    compiled: list[Step] = []
    for step in steps:
        if step["type"] not in _READERS:
            raise TokenizerError(
                f"the tokenizer.json uses the pre-tokenizer {step['type']!r}, which is not "
                f"supported: {', '.join(sorted(_READERS))} are."
            )
        compiled += _READERS[step["type"]](step)
    return compiled


def pattern_automaton(pattern: Json) -> Automaton:
    """Compiles a pattern, which is a text or a regex."""
    if "Regex" in pattern:
        return compile_automaton(parse_pattern(pattern["Regex"], ruby_syntax=True))
    return literal_automaton(pattern["String"])


def literal_automaton(text: str) -> Automaton:
    """Finds exactly this text."""
    if len(text) > 1000:
        raise TokenizerError(
            f"the tokenizer looks for a text of {len(text)} characters; at most 1000 are supported."
        )
    characters: tuple[Node, ...] = tuple(
        Characters(code_points.of_text(character)) for character in text
    )
    return compile_automaton(Sequence(characters))


def words_at_spaces(separator: str) -> Split:
    """A piece for each run of separators with what follows it."""
    automaton = compile_automaton(
        parse_pattern(f"{separator}*[^{separator}]+|{separator}+", ruby_syntax=False)
    )
    return Split(automaton)


def escape_spaces(replacement: str) -> Step:
    """Writes each space as `replacement`."""
    if replacement == SPACE:
        return Spaces(escapes=True)
    return Replace(literal_automaton(" "), replacement)


def _byte_level(step: Json) -> list[Step]:
    steps: list[Step] = []
    if step["add_prefix_space"]:
        steps.append(Prepend(" ", unless_there=True))
    if step["use_regex"]:
        steps.append(Split(compile_automaton(parse_pattern(GPT2_PATTERN, ruby_syntax=True))))
    return [*steps, Bytes()]


def _split(step: Json) -> list[Step]:
    behavior = _BEHAVIORS[step["behavior"]]
    keeps_all = behavior is not Behavior.REMOVED or not step["invert"]
    if keeps_all and step["pattern"] in ({"String": ""}, {"Regex": ""}):
        return _fixed_length({"length": 1})  # the empty text is found between all characters
    return [Split(pattern_automaton(step["pattern"]), behavior, bool(step["invert"]))]


def _metaspace(step: Json) -> list[Step]:
    replacement, scheme = step["replacement"], step["prepend_scheme"]
    steps = [escape_spaces(replacement)]
    if scheme != "never":
        steps.append(Prepend(replacement, unless_there=True, only_first=scheme == "first"))
    if step["split"]:
        steps.append(Split(literal_automaton(replacement), Behavior.MERGED_WITH_NEXT))
    return steps


def _bert(_: Json) -> list[Step]:
    return [_of_class(_white_space(), Behavior.REMOVED), _of_class(_punctuation())]


def _digits(step: Json) -> list[Step]:
    individual = step["individual_digits"]
    return [_of_class(_numeric(), Behavior.ISOLATED if individual else Behavior.CONTIGUOUS)]


def _whitespace(_: Json) -> list[Step]:
    words = compile_automaton(parse_pattern(_WORDS_PATTERN, ruby_syntax=False))
    return [Split(words, Behavior.REMOVED, inverted=True)]


def _punctuated(step: Json) -> list[Step]:
    return [_of_class(_punctuation(), _BEHAVIORS[step["behavior"]])]


def _fixed_length(step: Json) -> list[Step]:
    length = step["length"]
    if not 1 <= length <= 1000:
        raise TokenizerError(
            f"the tokenizer.json cuts texts into pieces of {length} characters, which is not "
            "supported: 1 to 1000 are."
        )
    any_character = Characters(~code_points.of_text(""))
    return [Split(compile_automaton(Repeat(any_character, 1, length, greedy=True)))]


_BEHAVIORS = {
    "Isolated": Behavior.ISOLATED,
    "Removed": Behavior.REMOVED,
    "Contiguous": Behavior.CONTIGUOUS,
    "MergedWithPrevious": Behavior.MERGED_WITH_PREVIOUS,
    "MergedWithNext": Behavior.MERGED_WITH_NEXT,
}
_READERS: dict[str, Callable[[Json], list[Step]]] = {
    "BertPreTokenizer": _bert,
    "ByteLevel": _byte_level,
    "CharDelimiterSplit": lambda step: [
        Split(literal_automaton(step["delimiter"]), Behavior.REMOVED)
    ],
    "Digits": _digits,
    "FixedLength": _fixed_length,
    "Metaspace": _metaspace,
    "Punctuation": _punctuated,
    "Split": _split,
    "UnicodeScripts": lambda _: [Split(script_runs(), Behavior.REMOVED, inverted=True)],
    "Whitespace": _whitespace,
    "WhitespaceSplit": lambda _: [_of_class(_white_space(), Behavior.REMOVED)],
}


def _of_class(members: CodePointSet, behavior: Behavior = Behavior.ISOLATED) -> Split:
    return Split(compile_automaton(Characters(members)), behavior)


def _white_space() -> CodePointSet:
    return code_points.matching(r"\s")


@lru_cache(maxsize=1)
def _punctuation() -> CodePointSet:
    """The characters that the library itself treats as punctuation."""
    punctuation = pre_tokenizers.Punctuation("removed")
    pieces = punctuation.pre_tokenize_str(code_points.every_character())
    members = ~code_points.of_text("".join(piece for piece, _ in pieces))
    members[0xD800:0xE000] = False
    return members


@lru_cache(maxsize=1)
def _numeric() -> CodePointSet:
    """The characters that the library itself treats as digits: every other piece of a split."""
    digits = pre_tokenizers.Digits(individual_digits=False)
    pieces = digits.pre_tokenize_str(code_points.every_character())
    return code_points.of_text("".join(piece for piece, _ in pieces[1::2]))
