"""llama.cpp's own tools: importance matrix, quantization, and KL divergence from the float model.

llama-perplexity cuts a text into chunks of 512 tokens and scores the second half of each; the file
that it keeps the float model's log probabilities in begins with the tokens, so that another engine
can be scored on the same positions.
"""

import re
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from devtools.errors import BadRequest, DevtoolsError

CHUNK = 512
FIRST = CHUNK // 2  # the first position that is scored
_MAGIC = b"_logits_"
_HEAD = 20  # bytes before the tokens
_NEVER = np.float32(-1e4)  # the logarithm of no probability
_KL = re.compile(r"Mean\s+KLD:\s+([-+.\deE]+)\s+±\s+([-+.\deE]+)")
PROGRAMS = ("llama-imatrix", "llama-quantize", "llama-perplexity")


@dataclass(frozen=True)
class Base:
    """A text, and what a model makes of it.

    Attributes:
        path: of the file of llama-perplexity.
        tokens: int64 (chunks, 512).
        vocab_size: of the model.
    """

    path: Path
    tokens: NDArray[np.int64]
    vocab_size: int

    def log_probabilities(self) -> Iterator[NDArray[np.float32]]:
        """Of each chunk, float32 (255, vocab_size), up to a constant of each row.

        A row is kept as its scale, its least value (at most 16 below its greatest) and 16 bits for
        each token, an odd number of tokens filled up by one. A token at the least value may be
        anywhere below; as in llama-perplexity's own sum, it has no probability.
        """
        count = CHUNK - 1 - FIRST
        width = 4 + self.vocab_size + self.vocab_size % 2
        with open(self.path, "rb") as file:
            file.seek(_HEAD + 4 * self.tokens.size)
            for _ in self.tokens:
                rows = np.frombuffer(file.read(2 * width * count), "<u2").reshape(count, width)
                scale, least = np.ascontiguousarray(rows[:, :4]).view("<f4").T[:, :, None]
                steps = rows[:, 4 : 4 + self.vocab_size].astype(np.float32)
                yield np.where(steps > 0, scale * steps + least, _NEVER)


class LlamaCpp:
    """The tools in one directory.

    Args:
        threads: of each tool.

    Raises:
        BadRequest: a tool is missing.
    """

    def __init__(self, directory: Path, threads: int) -> None:
        for name in PROGRAMS:
            if not (directory / name).is_file():
                raise BadRequest(
                    f"{directory / name} is missing; build llama.cpp, and give the directory with "
                    f"{', '.join(PROGRAMS)}."
                )
        self._directory = directory
        self._threads = str(threads)

    def importance(self, model: Path, text: Path, out: Path) -> None:
        """Writes the importance matrix of a text."""
        options = ("-m", model, "-f", text, "-o", out, "-c", str(CHUNK), "--parse-special")
        self._run("llama-imatrix", *options, "--no-ppl", "-t", self._threads)

    def quantize(self, model: Path, importance: Path, kind: str, out: Path) -> None:
        """Quantizes to a type such as Q4_K_M.

        Raises:
            DevtoolsError: llama-quantize does not know it.
        """
        self._run("llama-quantize", "--imatrix", importance, model, out, kind, self._threads)

    def base(self, model: Path, text: Path, chunks: int, out: Path) -> Base:
        """Runs a model over a text and keeps what it makes of it."""
        options = ("-m", model, "-f", text, "-c", str(CHUNK), "--chunks", str(chunks))
        keep = ("--kl-divergence-base", out)
        self._run("llama-perplexity", *options, *keep, "-t", self._threads)
        return read_base(out)

    def score(self, model: Path, base: Base) -> tuple[float, float]:
        """KL divergence from the float model, in nats, and its standard error."""
        options = ("-m", model, "--kl-divergence-base", base.path, "--kl-divergence")
        output = self._run("llama-perplexity", *options, "-t", self._threads)
        match = _KL.search(output)
        if match is None:
            raise DevtoolsError(f"llama-perplexity printed no KL divergence of {model}.")
        return float(match[1]), float(match[2])

    def _run(self, name: str, *arguments: str | Path) -> str:
        command = [self._directory / name, *arguments]
        result = subprocess.run(command, capture_output=True, check=False)
        output = (result.stdout + result.stderr).decode(errors="replace")
        if result.returncode != 0:
            lines = [line for line in output.splitlines() if line.strip()]
            raise DevtoolsError(f"{name} failed: {lines[-1] if lines else 'it said nothing'}")
        return output


def read_base(path: Path) -> Base:
    """Reads the head and the tokens of a file of log probabilities.

    Raises:
        DevtoolsError: it is no such file.
    """
    with open(path, "rb") as file:
        head = file.read(_HEAD)
        if len(head) < _HEAD or not head.startswith(_MAGIC):
            raise DevtoolsError(f"{path} is not a file that llama-perplexity keeps logits in.")
        width, vocab_size, chunks = struct.unpack("<iii", head[8:])
        tokens = np.frombuffer(file.read(4 * width * chunks), dtype="<i4")
    return Base(path, tokens.reshape(chunks, width).astype(np.int64), vocab_size)
