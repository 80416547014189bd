"""Lays tokens out as a trie over bytes, walked in place by runtime/cpp/tokenizer/trie.h."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

NONE = 0xFFFFFFFF


@dataclass(frozen=True)
class TrieTables:
    """The columns of the schema's table `Trie`."""

    first_children: npt.NDArray[np.uint32]
    labels: npt.NDArray[np.uint8]
    values: npt.NDArray[np.uint32]


def trie_tables(tokens: dict[bytes, int]) -> TrieTables:
    """Builds the trie level by level: nodes in breadth-first order, siblings by their bytes."""
    texts = sorted(token for token in tokens if token)
    ids = np.array([tokens[text] for text in texts], dtype=np.uint32)
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    data = np.frombuffer(b"".join(texts), dtype=np.uint8)
    node_of = np.zeros(len(texts), dtype=np.int64)  # where each text has come to
    live = np.arange(len(texts))
    parents = [np.zeros(1, dtype=np.int64)]  # the root is its own
    labels = [np.zeros(1, dtype=np.uint8)]
    values = [np.full(1, NONE, dtype=np.uint32)]
    count, depth = 1, 0
    while len(live):
        letters = data[starts[live] + depth]
        above = node_of[live]
        begins = np.ones(len(live), dtype=np.bool_)
        begins[1:] = (above[1:] != above[:-1]) | (letters[1:] != letters[:-1])
        nodes = count + np.cumsum(begins) - 1
        node_of[live] = nodes
        parents.append(above[begins])
        labels.append(letters[begins])
        depth += 1
        ending = lengths[live] == depth
        level = np.full(int(begins.sum()), NONE, dtype=np.uint32)
        level[nodes[ending] - count] = ids[live[ending]]
        values.append(level)
        count += len(level)
        live = live[~ending]
    children = np.bincount(np.concatenate(parents)[1:], minlength=count)
    first_children = np.concatenate([[1], 1 + np.cumsum(children)]).astype(np.uint32)
    return TrieTables(first_children, np.concatenate(labels), np.concatenate(values))
