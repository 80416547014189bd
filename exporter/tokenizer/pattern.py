r"""Parses the regexes that split or replace text into a small syntax tree.

The subset is what tokenizers use: alternatives, groups, the flags `i` and `m` of a group or of the
rest of one, classes of any kind, of which the reference engine itself says what they hold, all
quantifiers (lazy ones, and possessive ones after a single class), `$`, and a lookahead at a single
class such as `(?!\S)`. Anything else is refused by name.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from tokenizers import Regex, normalizers

from exporter.tokenizer import code_points
from exporter.tokenizer.code_points import CodePointSet
from exporter.tokenizer.errors import TokenizerError


@dataclass(frozen=True, eq=False)
class Characters:
    """Consumes one character of the set."""

    members: CodePointSet


@dataclass(frozen=True, eq=False)
class Ahead:
    """Consumes nothing; the next character must be in the set, or the text may end if `at_end`."""

    members: CodePointSet
    at_end: bool


@dataclass(frozen=True)
class Sequence:
    parts: tuple["Node", ...]


@dataclass(frozen=True)
class Alternatives:
    """Alternatives in order: the first with which the complete pattern matches wins."""

    choices: tuple["Node", ...]


@dataclass(frozen=True)
class Repeat:
    """`part` from `least` to `most` times (None: no limit), as often as possible if `greedy`."""

    part: "Node"
    least: int
    most: int | None
    greedy: bool


Node = Characters | Ahead | Sequence | Alternatives | Repeat

_QUANTIFIERS: dict[str, tuple[int, int | None]] = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_ESCAPES = "sSdDwWhHpPnrtfvae0"
_WITH_BRACES = "pPx"
_DIGITS_BEHIND = {"x": 2, "u": 4}
_BLOCK = 256  # characters that are compared with their lower case at once
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")


@dataclass(frozen=True)
class Flags:
    """`i`: regardless of case; `m`, as Oniguruma calls it: `.` is a newline as well."""

    ignore_case: bool = False
    dot_is_all: bool = False


def parse_pattern(pattern: str, ruby_syntax: bool) -> Node:
    """Parses `pattern`.

    Args:
        pattern: the regex, in the syntax that Oniguruma and Rust's engines share.
        ruby_syntax: as Oniguruma reads the patterns of a `tokenizer.json`, not as Rust's engines
            read tiktoken's: `$` also matches before every newline, and a sign after `{m,n}` (except
            a lazy `?`) is a separate quantifier, so that `{1,3}+` has no limit.

    Raises:
        TokenizerError: the pattern uses a feature outside the subset above, which is named.
    """
    parser = _Parser(pattern, ruby_syntax)
    node = parser.alternatives(Flags())
    if parser.rest():
        raise parser.unsupported("an unbalanced )")
    return node


class _Parser:
    def __init__(self, pattern: str, ruby_syntax: bool) -> None:
        self._pattern = pattern
        self._at = 0
        self._ruby_syntax = ruby_syntax
        self._letters = ""  # of the expression just read, where case does not count

    def rest(self) -> str:
        return self._pattern[self._at :]

    def unsupported(self, feature: str) -> TokenizerError:
        return TokenizerError(
            f"the tokenizer's pattern {self._pattern!r} uses {feature}, which is not "
            "supported; alternatives, groups, classes, quantifiers and one-character lookahead are."
        )

    def _take(self, prefix: str) -> bool:
        if not self._pattern.startswith(prefix, self._at):
            return False
        self._at += len(prefix)
        return True

    def _next(self) -> str:
        if self._at == len(self._pattern):
            raise self.unsupported("an incomplete expression")
        self._at += 1
        return self._pattern[self._at - 1]

    def alternatives(self, flags: Flags) -> Node:
        choices = [self._sequence(flags)]
        while self._take("|"):
            choices.append(self._sequence(flags))
            self._letters = ""
        return choices[0] if len(choices) == 1 else Alternatives(tuple(choices))

    def _sequence(self, flags: Flags) -> Node:
        parts: list[Node] = []
        letters = ""  # before this place, if they may be one text to the engine
        while self.rest() and self.rest()[0] not in "|)":
            changed = self._changed_flags(flags, ends_with=")")
            if changed is not None:  # as a group that holds the rest, its alternatives included
                parts.append(self.alternatives(changed))
            else:
                parts.append(self._quantified(self._atom(flags)))
            letters = letters + self._letters if self._letters else ""
            if any(text in letters.casefold() for text in _several_letters()):
                raise self.unsupported(f"{letters!r} for a single letter, regardless of case")
        self._letters = letters
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _changed_flags(self, flags: Flags, ends_with: str) -> Flags | None:
        """Takes `(?i)` or, with another end, the begin of the group `(?i:`; None: there is none."""
        match = _FLAGS.match(self._pattern, self._at)
        if match is None or match[3] != ends_with or match[0] == "(?:":
            return None
        if ends_with == ")" and not self._ruby_syntax:
            raise self.unsupported(f"the group {match[0]}")
        for letters, on in ((match[1], True), (match[2] or "", False)):
            for letter in letters:
                if letter == "i":
                    flags = replace(flags, ignore_case=on)
                elif letter == "m" and self._ruby_syntax:
                    flags = replace(flags, dot_is_all=on)
                else:
                    raise self.unsupported(f"the flag {letter} in {match[0]}")
        self._at = match.end()
        return flags

    def _quantified(self, part: Node) -> Node:
        while True:
            in_braces = self.rest().startswith("{")
            bounds = self._bounds()
            if bounds is None:
                return part
            least, most = bounds
            if _may_be_empty(part) and most not in (0, 1):
                raise self.unsupported("a repeat of what may match the empty text")
            bare = self._ruby_syntax and in_braces
            if not bare and self._take("+"):
                part = self._possessive(part, least, most)
            else:
                lazy = not (bare and least == most) and self._take("?")
                part = Repeat(part, least, most, greedy=not lazy)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in _QUANTIFIERS.items():
            if self._take(sign):
                return bounds
        if not self._take("{"):
            return None
        inside, brace, _ = self.rest().partition("}")
        first, comma, second = inside.partition(",")
        if max(len(first), len(second)) > 3:
            raise self.unsupported(f"the quantifier {{{inside}}}, which counts beyond 999")
        if self._ruby_syntax and comma and second and not first:
            first = "0"
        if not brace or not first.isdecimal() or (second and not second.isdecimal()):
            raise self.unsupported(f"the quantifier {{{inside}")
        self._at += len(inside) + 1
        if not comma:
            return int(first), int(first)
        return int(first), int(second) if second else None

    def _possessive(self, part: Node, least: int, most: int | None) -> Node:
        """Returns a possessive repeat of a character class: greedy, ending only where the class
        ends."""
        if not isinstance(part, Characters):
            raise self.unsupported("a possessive quantifier after more than one character class")
        no_more = Ahead(~part.members, at_end=True)
        required = (part,) * least
        if most is None:
            return Sequence((*required, Repeat(part, 0, None, greedy=True), no_more))
        optional: Node = Sequence(())
        for _ in range(most - least):
            optional = Alternatives((Sequence((part, optional)), no_more))
        return Sequence((*required, optional))

    def _atom(self, flags: Flags) -> Node:
        self._letters = ""
        changed = self._changed_flags(flags, ends_with=":")
        if changed is not None:
            return self._closed(self.alternatives(changed))
        if self._take("("):
            return self._group(flags)
        if self._take("["):
            return Characters(self._class(flags.ignore_case))
        if self._take("$"):
            newline = code_points.of_text("\n" if self._ruby_syntax else "")
            return Ahead(newline, at_end=True)
        if self._take("."):
            return Characters(~code_points.of_text("" if flags.dot_is_all else "\n"))
        if self._take("\\"):
            return Characters(self._escape(flags.ignore_case))
        character = self._next()
        if character in "^*+?{":
            raise self.unsupported(f"{character!r} instead of an expression")
        self._letters = character if flags.ignore_case else ""
        return Characters(self._literal(character, flags.ignore_case))

    def _group(self, flags: Flags) -> Node:
        if self._take("?!"):
            return self._lookahead(flags, negated=True)
        if self._take("?="):
            return self._lookahead(flags, negated=False)
        if not self._take("?:") and self.rest().startswith("?"):
            raise self.unsupported(f"the group ({self.rest()[:3]}")
        return self._closed(self.alternatives(flags))

    def _closed(self, node: Node) -> Node:
        if not self._take(")"):
            raise self.unsupported("an unbalanced (")
        return node

    def _lookahead(self, flags: Flags, negated: bool) -> Node:
        node = self._closed(self.alternatives(flags))
        if not isinstance(node, Characters):
            raise self.unsupported("a lookahead at more than one character class")
        return Ahead(~node.members if negated else node.members, at_end=negated)

    def _escape(self, ignore_case: bool) -> CodePointSet:
        """One that stands for a character or a class of them: the engine says for which."""
        start = self._at - 1
        character = self._next()
        if character in _WITH_BRACES and self._take("{"):
            name, brace, _ = self.rest().partition("}")
            if not brace:
                raise self.unsupported("an expression that ends too early")
            self._at += len(name) + 1
        elif character in _DIGITS_BEHIND:
            self._at += _DIGITS_BEHIND[character]
        elif character.isalnum() and character not in _ESCAPES:
            raise self.unsupported(f"the escape \\{character}")
        atom = self._pattern[start : self._at]
        if ignore_case and character.lower() not in "shdwp":
            (point,) = code_points.matching(atom, self._ruby_syntax).nonzero()[0]
            self._letters = chr(point)
        return self._asked(atom, ignore_case)

    def _class(self, ignore_case: bool) -> CodePointSet:
        """A class in brackets, which may hold others: the engine says what is in it."""
        start, depth = self._at - 1, 1
        self._take("^")
        self._take("]")  # the first one is a member
        while depth:
            character = self._next()
            if character == "\\":
                self._next()
            depth += (character == "[") - (character == "]")
        return self._asked(self._pattern[start : self._at], ignore_case)

    def _literal(self, character: str, ignore_case: bool) -> CodePointSet:
        if ignore_case and character.isascii() and character.isalpha():
            return code_points.letter(character, self._ruby_syntax)
        if ignore_case and character.lower() + character.upper() != 2 * character:
            return self._asked(character, ignore_case)
        return code_points.of_text(character)

    def _asked(self, atom: str, ignore_case: bool) -> CodePointSet:
        if not ignore_case:
            return code_points.matching(atom, self._ruby_syntax)
        members = code_points.matching(f"(?i:{atom})", self._ruby_syntax)
        if self._ruby_syntax and _matches_several(atom):
            raise self.unsupported(f"{atom}, which regardless of case is several letters as well")
        return members


def _may_be_empty(node: Node) -> bool:
    """Whether it may match the empty text: engines differ in how they repeat that."""
    if isinstance(node, Sequence):
        return all(map(_may_be_empty, node.parts))
    if isinstance(node, Alternatives):
        return any(map(_may_be_empty, node.choices))
    if isinstance(node, Repeat):
        return node.least == 0 or _may_be_empty(node.part)
    return isinstance(node, Ahead)


@lru_cache(maxsize=1)
def _several_letters() -> frozenset[str]:
    """The texts that regardless of case equal a single letter, such as "ss"."""
    every = code_points.every_character()
    blocks = (every[start : start + _BLOCK] for start in range(0, len(every), _BLOCK))
    grown = (block for block in blocks if len(block.casefold()) > len(block))
    folded = (character.casefold() for block in grown for character in block)
    return frozenset(text for text in folded if len(text) > 1)


@lru_cache(maxsize=256)
def _matches_several(atom: str) -> bool:
    """Whether Oniguruma lets one such text stand for a member of a class."""
    whole = normalizers.Replace(Regex(rf"\A(?i:{atom})\z"), "")
    return any(not whole.normalize_str(text) for text in _several_letters())
