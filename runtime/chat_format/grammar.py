"""Writes grammars in GBNF, the notation of runtime/cpp/constraint/gbnf.h."""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from runtime.chat_format.special_tokens import SpecialTokens
from runtime.errors import RunnerError

# The white space that models were trained to write in JSON.
_SPACED = {"item_separator": ", ", "key_separator": ": "}


class Grammar:
    """Rules of a grammar, which expressions refer to by their names.

    Args:
        special: those that literals have.

    Attributes:
        described: of the rules that are constraints, what each describes.
    """

    def __init__(self, special: SpecialTokens) -> None:
        self.described: dict[str, str] = {}
        self._rules: dict[str, str] = {}
        self._special = special

    def text(self, root: str) -> str:
        """Returns the grammar of an expression."""
        rules = [f"{name} ::= {expression}" for name, expression in self._rules.items()]
        return "\n".join([f"root ::= {root}", *rules]) + "\n"

    def rule(self, expression: str) -> str:
        """Adds a rule; returns its name."""
        name = f"r{len(self._rules)}"
        self.define(name, expression)
        return name

    def define(self, name: str, expression: str) -> None:
        """Adds a rule by its name, which it may refer to."""
        self._rules[name] = expression

    def literal(self, text: str) -> str:
        """A text, in which special tokens are these tokens."""
        return " ".join(map(_terminal, self._special.symbols(text))) or '""'

    def json(self, schema: Mapping[str, Any] | bool, of: str) -> str:
        """JSON of a schema, with a space behind each comma and colon.

        Args:
            of: what the schema describes: it names the rule.
        """
        if isinstance(schema, Mapping) and "x-guidance" not in schema:
            schema = {**schema, "x-guidance": _SPACED}
        return self._described("%json " + json.dumps(schema, ensure_ascii=True), of)

    def constrained(self, kind: str, value: Any, of: str) -> str:
        """What a constraint allows.

        Args:
            kind, value: an option of AnswerOptions.
            of: see json().

        Raises:
            RunnerError: it is a choice of nothing, or of an empty text.
        """
        if kind == "json_schema":
            return self.json(value, of)
        if kind == "choice":
            if not value:
                raise RunnerError("choice is empty, but must be a list of one text or more")
            if "" in value:
                raise RunnerError("the choice has an empty text: leave it out")
            return self._described(" | ".join(map(_quoted, value)), of)
        word = "%regex" if kind == "regex" else "%gbnf"
        return self._described(f"{word} {_quoted(value)}", of)

    def _described(self, expression: str, of: str) -> str:
        name = "schema-of-" + re.sub("[^A-Za-z0-9_-]+", "-", of)
        while self._rules.get(name, expression) != expression:
            name += "-"  # another place's name differs only in what a rule's may not have
        self.define(name, expression)
        self.described[name] = of
        return name

    def arguments(self, schema: Mapping[str, Any], form: Mapping[str, Any], of: str) -> str:
        """A call's arguments that are no JSON object, but stand one by one.

        Args:
            schema: of the object that they are.
            form: the texts before_name, before_value, behind_value and between; raw_strings:
                whether strings stand without quotes, up to behind_value.
            of: see json().
        """
        return self.json({**schema, "x-guidance": {**_SPACED, "arguments": form}}, of)

    def one_of(self, expressions: Collection[str]) -> str:
        return "( " + " | ".join(expressions) + " )"

    def text_until(self, markers: Mapping[str, str | None], may_end: bool) -> str:
        """Any text up to the first of the markers, and what follows it.

        Args:
            markers: texts, none of them the beginning of another, each with the expression of what
                follows it; None: the text must not have it.
            may_end: the text may also end without a marker.
        """
        # The automaton of Aho and Corasick (Efficient string matching, 1975): a state is the
        # longest end of the text that a marker begins with.
        targets = {
            tuple(self._special.symbols(marker)): follows for marker, follows in markers.items()
        }
        prefixes = sorted({marker[:n] for marker in targets for n in range(len(marker))})
        names = {state: f"u{len(self._rules)}_{n}" for n, state in enumerate(prefixes)}
        known = {**names, **targets}
        for state, name in names.items():
            ends = _ends(state)
            symbols = sorted({prefix[-1] for prefix in known if prefix and prefix[:-1] in ends})
            options = ['""'] if may_end else []
            for symbol in symbols:
                reached = next(end for end in _ends((*state, symbol)) if end in known)
                if known[reached] is not None:
                    options.append(f"{_terminal(symbol)} {known[reached]}")
            characters = "".join(_escaped(symbol) for symbol in symbols if len(symbol) == 1)
            options.append(f"{f'[^{characters}]' if characters else '.'} {names[()]}")
            self.define(name, " | ".join(options))
        return names[()]

    def text_not_beginning(self, heads: Collection[str]) -> str:
        """Any text that does not begin with one of these, wherever they have white space."""
        wholes = {"".join(head.split()) for head in heads}
        prefixes = sorted({whole[:n] for whole in wholes for n in range(len(whole))}) or [""]
        names = {prefix: f"n{len(self._rules)}_{n}" for n, prefix in enumerate(prefixes)}
        for prefix, name in names.items():
            following = sorted({w[len(prefix)] for w in wholes if w[: len(prefix)] == prefix})
            options = ['""', f"[ \\t\\r\\n] {name}"]
            for symbol in following:
                if prefix + symbol not in wholes:
                    options.append(f"{_terminal(symbol)} {names[prefix + symbol]}")
            others = "".join(map(_escaped, following))
            options.append(f"[^ \\t\\r\\n{others}] .*")
            self.define(name, " | ".join(options))
        return names[""]


def _ends(state: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [state[n:] for n in range(len(state) + 1)]


def _terminal(symbol: str) -> str:
    return _quoted(symbol) if len(symbol) == 1 else f"<{_quoted(symbol)}>"


def _quoted(text: str) -> str:
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    """A character, escaped for a string as well as for a class."""
    if character.isalnum() and character.isascii():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
