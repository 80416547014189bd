"""Swift sources, parsed: what they call of C. There is no Swift compiler for every system."""

from collections.abc import Iterator
from dataclasses import dataclass

import tree_sitter
import tree_sitter_swift


@dataclass(frozen=True)
class Call:
    """A call of a function by its name, with the label of each argument, None without one."""

    name: str
    labels: tuple[str | None, ...]


class SwiftSource:
    """A parsed file."""

    def __init__(self, text: str) -> None:
        language = tree_sitter.Language(tree_sitter_swift.language())
        self._tree = tree_sitter.Parser(language).parse(text.encode())

    def errors(self) -> list[int]:
        """The lines that are not Swift."""
        return [
            node.start_point.row + 1 for node in self._nodes() if node.is_error or node.is_missing
        ]

    def calls(self) -> list[Call]:
        return [self._call(node) for node in self._nodes() if node.type == "call_expression"]

    def names(self) -> set[str]:
        """Every name that is used."""
        kinds = ("simple_identifier", "type_identifier")
        return {_text(node) for node in self._nodes() if node.type in kinds}

    def _nodes(self) -> Iterator[tree_sitter.Node]:
        left = [self._tree.root_node]
        while left:
            node = left.pop()
            yield node
            left.extend(node.children)

    def _call(self, node: tree_sitter.Node) -> Call:
        arguments = [
            argument
            for suffix in node.children
            if suffix.type == "call_suffix"
            for values in suffix.children
            if values.type == "value_arguments"
            for argument in values.children
            if argument.type == "value_argument"
        ]
        return Call(_text(node.children[0]), tuple(_label(argument) for argument in arguments))


def _label(argument: tree_sitter.Node) -> str | None:
    labels = [child for child in argument.children if child.type == "value_argument_label"]
    return _text(labels[0]) if labels else None


def _text(node: tree_sitter.Node) -> str:
    return node.text.decode() if node.text is not None else ""
