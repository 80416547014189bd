"""Runs of one script, as the pre-tokenizer `UnicodeScripts` of `tokenizers` sees them."""

from functools import lru_cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt
from tokenizers import pre_tokenizers

from exporter.tokenizer import code_points
from exporter.tokenizer.dfa import DEAD, MATCH, START, Automaton

_NEUTRAL = 0


@lru_cache(maxsize=1)
def script_runs() -> Automaton:
    """Finds the runs of characters of one script, with the neutral ones inside and after them."""
    classes = _script_of_each()
    count = int(classes.max()) + 1
    # State 1 + s is within a run of script s.
    transitions = np.full((1 + count, count + 1), DEAD, dtype=np.uint16)
    for script in range(1, count):
        state = START + script
        transitions[START, script] = state
        transitions[state] = MATCH | DEAD
        transitions[state, [script, _NEUTRAL]] = state
    blocks, values = code_points.blocks(classes)
    return Automaton(blocks, values, count, transitions.reshape(-1))


def _script_of_each() -> npt.NDArray[np.uint8]:
    """A class for each code point: 0 for the neutral ones, then one for each script."""
    every = code_points.every_character()
    neutral = _joining("a", every) & _joining("\u0431", every)
    scripted = "".join(character for character in every if character not in neutral)
    runs = [piece for piece, _ in pre_tokenizers.UnicodeScripts().pre_tokenize_str(scripted)]
    classes = np.zeros(code_points.CODE_POINTS, dtype=np.uint8)
    pending = "".join(run[0] for run in runs)
    script_of: dict[str, int] = {}
    while pending:
        same = _joining(pending[0], pending)
        script_of |= dict.fromkeys(same, len(set(script_of.values())) + 1)
        pending = "".join(character for character in pending if character not in same)
    for run in runs:
        classes[code_points.of_text(run)] = script_of[run[0]]
    return classes


def _joining(first: str, characters: str) -> set[str]:
    """Those of `characters` that the library does not split from a preceding `first`."""
    text = "".join(first + character for character in characters)
    pieces = pre_tokenizers.UnicodeScripts().pre_tokenize_str(text)
    starts = set(accumulate(len(piece) for piece, _ in pieces))
    return {c for place, c in enumerate(characters) if 2 * place + 1 not in starts}
