"""C++ test programs at the ends of pipes, framed as runtime/cpp/tests/binary_requests.h says."""

import struct
import subprocess
from pathlib import Path

import numpy as np


def frame(payload: bytes, item_size: int = 1) -> bytes:
    """A count of items and their bytes."""
    return struct.pack("<I", len(payload) // item_size) + payload


def frame_texts(texts: list[bytes]) -> bytes:
    """A count of texts, each framed."""
    return struct.pack("<I", len(texts)) + b"".join(map(frame, texts))


def ask(command: list[str | Path], requests: list[bytes], answer_size: int) -> list[bytes]:
    """Sends the requests; returns the answers, whose items have `answer_size` bytes each."""
    outcome = subprocess.run(command, input=b"".join(requests), capture_output=True, timeout=100)
    assert outcome.returncode == 0, outcome.stderr.decode()
    answers, at = [], 0
    while at < len(outcome.stdout):
        (count,) = struct.unpack_from("<I", outcome.stdout, at)
        at += 4
        answers.append(outcome.stdout[at : at + count * answer_size])
        at += count * answer_size
    return answers


class CppTokenizer:
    """A compiled tokenizer, run in C++."""

    def __init__(self, build: Path, blob: Path) -> None:
        self._command = [build / "tokenizer_cli", blob]

    def encode(self, texts: list[str], parse_special: bool = False) -> list[list[int]]:
        return self.encode_bytes([text.encode("utf-8") for text in texts], parse_special)

    def encode_bytes(self, texts: list[bytes], parse_special: bool = False) -> list[list[int]]:
        mode = "encode-special" if parse_special else "encode"
        answers = ask([*self._command, mode], list(map(frame, texts)), 4)
        return [np.frombuffer(answer, dtype="<i4").tolist() for answer in answers]

    def encode_pieces(self, pieces: list[tuple[str, bool]]) -> list[int]:
        texts = [(b"1" if literal else b"0") + text.encode("utf-8") for text, literal in pieces]
        (answer,) = ask([*self._command, "encode-pieces"], [frame_texts(texts)], 4)
        return np.frombuffer(answer, dtype="<i4").tolist()

    def decode(self, ids: list[list[int]]) -> list[str]:
        requests = [frame(np.array(one, dtype="<i4").tobytes(), 4) for one in ids]
        return [answer.decode("utf-8") for answer in ask([*self._command, "decode"], requests, 1)]

    def bytes_of_loading(self) -> int:
        """What loading allocates, beside the blob itself."""
        (answer,) = ask([*self._command, "load"], [], 1)
        return int(answer)
