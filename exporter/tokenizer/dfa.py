"""Compiles a pattern into a table that a loop of a few lines runs.

Backtracking engines prefer the leftmost alternative, not the longest match. A state of the
automaton is therefore an *ordered* list of places in the pattern, cut after the first that has
matched (Cox, "Regular Expression Matching: the Virtual Machine Approach", 2009). A lookahead of one
character costs nothing, because the transition on the next character reports the match.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from exporter.tokenizer import code_points
from exporter.tokenizer.code_points import CodePointSet
from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.pattern import Ahead, Alternatives, Characters, Node, Repeat
from exporter.tokenizer.pattern import Sequence as Concatenation

MATCH = 0x8000
DEAD = 0
START = 1
_MAX_STATES = 4096


@dataclass(frozen=True, eq=False)
class Automaton:
    """Finds the matches of one pattern.

    Attributes:
        blocks: uint16 (8704,), the block of each `code point >> 7`.
        classes: uint8 (blocks * 128,), the class of each code point of a block.
        num_classes: how many classes; the end of the text counts as class `num_classes`.
        transitions: uint16 (states * (num_classes + 1),): the next state, and in the top bit
            whether a match ends before the character of this class. State 0 is dead, 1 the start.
    """

    blocks: npt.NDArray[np.uint16]
    classes: npt.NDArray[np.uint8]
    num_classes: int
    transitions: npt.NDArray[np.uint16]


def compile_automaton(pattern: Node) -> Automaton:
    """Compiles a parsed pattern.

    Raises:
        TokenizerError: the pattern matches the empty text, or needs too many states.
    """
    program = _Program()
    program.emit(pattern)
    program.instructions.append(_Match())
    classes, num_classes = code_points.partition(program.sets)
    first_of_class = np.unique(classes, return_index=True)[1]
    # in_set[s][c]: whether set s holds the characters of class c.
    in_set = [members[first_of_class].tolist() for members in program.sets]
    transitions = _determinize(program, in_set, num_classes)
    if any(entry & MATCH for entry in transitions[START]):
        raise TokenizerError(
            "the tokenizer's pattern matches the empty text, which is not supported."
        )
    blocks, values = code_points.blocks(classes)
    table = np.array(transitions, dtype=np.uint16).reshape(-1)
    return Automaton(blocks, values, num_classes, table)


@dataclass(frozen=True)
class _Consume:
    set_index: int


@dataclass(frozen=True)
class _Look:
    set_index: int
    at_end: bool


@dataclass
class _Fork:
    """Continues at `first`, or at `second` if that fails."""

    first: int
    second: int


@dataclass(frozen=True)
class _Match:
    pass


class _Program:
    """The pattern as instructions (Thompson's construction); each continues with the next."""

    def __init__(self) -> None:
        self.instructions: list[_Consume | _Look | _Fork | _Match] = []
        self.sets: list[CodePointSet] = []
        self._set_indices: dict[bytes, int] = {}

    def _set_index(self, members: CodePointSet) -> int:
        index = self._set_indices.setdefault(members.tobytes(), len(self.sets))
        if index == len(self.sets):
            self.sets.append(members)
        return index

    def _fork(self) -> _Fork:
        fork = _Fork(len(self.instructions) + 1, len(self.instructions) + 1)
        self.instructions.append(fork)
        return fork

    def _jump(self, target: int) -> None:
        self.instructions.append(_Fork(target, target))

    def emit(self, node: Node) -> None:
        if isinstance(node, Characters):
            self.instructions.append(_Consume(self._set_index(node.members)))
        elif isinstance(node, Ahead):
            self.instructions.append(_Look(self._set_index(node.members), node.at_end))
        elif isinstance(node, Concatenation):
            for part in node.parts:
                self.emit(part)
        elif isinstance(node, Alternatives):
            self._emit_alternatives(node)
        else:
            self._emit_repeat(node)

    def _emit_alternatives(self, node: Alternatives) -> None:
        jumps = []
        for choice in node.choices[:-1]:
            fork = self._fork()
            self.emit(choice)
            self._jump(-1)
            jumps.append(self.instructions[-1])
            fork.second = len(self.instructions)
        self.emit(node.choices[-1])
        for jump in jumps:
            assert isinstance(jump, _Fork)
            jump.first = jump.second = len(self.instructions)

    def _emit_repeat(self, node: Repeat) -> None:
        for _ in range(node.least):
            self.emit(node.part)
        if node.most is None:
            loop = len(self.instructions)
            fork = self._fork()
            self.emit(node.part)
            self._jump(loop)
            self._leave(fork, node.greedy)
            return
        forks = []
        for _ in range(node.most - node.least):
            forks.append(self._fork())
            self.emit(node.part)
        for fork in forks:
            self._leave(fork, node.greedy)

    def _leave(self, fork: _Fork, greedy: bool) -> None:
        """Lets `fork` choose between its part, which follows it, and the next instruction here."""
        here = len(self.instructions)
        if greedy:
            fork.second = here
        else:
            fork.first, fork.second = here, fork.first


def _determinize(program: _Program, in_set: list[list[bool]], num_classes: int) -> list[list[int]]:
    """Builds transitions[state][class]; class `num_classes` is the end of the text."""
    states: dict[tuple[int, ...], int] = {(): DEAD, (0,): START}
    queue = list(states)
    transitions: list[list[int]] = []
    for state in queue:
        row = []
        for character_class in range(num_classes + 1):
            at_end = character_class == num_classes
            targets, matched = _step(program, in_set, state, None if at_end else character_class)
            if targets not in states:
                states[targets] = len(states)
                queue.append(targets)
            row.append(states[targets] | (MATCH if matched else 0))
        transitions.append(row)
        if len(states) > _MAX_STATES:
            raise TokenizerError(
                f"the tokenizer's pattern needs more than {_MAX_STATES} states: no supported "
                "tokenizer needs that many."
            )
    return transitions


def _step(
    program: _Program,
    in_set: list[list[bool]],
    state: tuple[int, ...],
    character_class: int | None,
) -> tuple[tuple[int, ...], bool]:
    """Returns the places after one character (None: the end), and whether a match ended before
    it."""
    targets: list[int] = []
    seen: set[int] = set()
    stack = list(reversed(state))
    while stack:
        place = stack.pop()
        if place in seen:
            continue
        seen.add(place)
        instruction = program.instructions[place]
        if isinstance(instruction, _Match):
            return tuple(targets), True
        if isinstance(instruction, _Fork):
            stack += (instruction.second, instruction.first)
        elif isinstance(instruction, _Look):
            holds = (
                instruction.at_end
                if character_class is None
                else in_set[instruction.set_index][character_class]
            )
            if holds:
                stack.append(place + 1)
        elif character_class is not None and in_set[instruction.set_index][character_class]:
            if place + 1 not in targets:
                targets.append(place + 1)
    return tuple(targets), False
