"""Measures what is bit-identical in an answer's logits and what is not, and prints a table of it.

    python tests/determinism.py MODEL.pte [OTHER.pte ...]

MODEL is a file of the CPU delegate, run in a new process for every row. The others are of the same
model, such as one for another delegate.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXT = "def add(a, b):\n    return a + b\n\n\nclass Stack:\n    def push(self, item):\n" * 3
KERNELS = ("scalar", "avx2", "avxvnni", "avx512vnni", "amx_int8")

# What a new process does: it prints the digest of the logits after each token of a text.
LOGITS = """
import hashlib, sys
from runtime import Runner
path, text, threads, chunk, kv_cache = sys.argv[1], sys.argv[2], *sys.argv[3:6]
with Runner(path, int(threads), kv_cache) as runner:
    tokens, digest = runner.encode(text), hashlib.sha256()
    size = int(chunk) or len(tokens)
    for first in range(0, len(tokens), size):
        digest.update(runner.logits(tokens[: first + size], first).tobytes())
    print(digest.hexdigest(), runner.stats["runs_with"])
"""
RESTORED = """
import hashlib, sys
from runtime import Runner
path, text, session = sys.argv[1:4]
with Runner(path, 1) as runner:
    tokens = runner.encode(text)
    half = len(tokens) // 2
    if len(sys.argv) == 4:
        before = runner.logits(tokens[:half])
        runner.save(session)
        print(before.tobytes().hex())
    else:
        runner.restore(session)
        before = bytes.fromhex(open(sys.argv[4]).read())
        print(hashlib.sha256(before + runner.logits(tokens, half).tobytes()).hexdigest(), "")
"""
ANSWERS = """
import hashlib, sys
from runtime import Engine, Runner
path, text, together, draft = sys.argv[1:5]
with Runner(path, 1, draft=draft or None) as runner:
    options = dict(temperature=0.8, seed=5)
    if together == "0":
        said = "".join(runner.generate(text, 24, **options))
    else:
        with Engine(runner, sequences=4) as engine:
            texts = [text, "A", "The list of", text[:20]][: int(together)]
            given = [engine.submit(one, 24, **options) for one in texts]
            said = given[0].text()
    print(hashlib.sha256(said.encode()).hexdigest(), "")
"""


def run(code: str, *arguments: object, **variables: str) -> tuple[str, str] | None:
    """The digest, and what ran; None if this machine cannot."""
    ended = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), **variables},
    )
    if ended.returncode != 0:
        if "THIMBLE_KERNELS" in ended.stderr or "kernel" in ended.stderr:
            return None
        raise SystemExit(ended.stderr)
    digest, _, what = ended.stdout.strip().partition(" ")
    return digest, what


def restarted(model: Path) -> str:
    """The digest of logits whose second half comes from a session in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        session, before = Path(folder) / "session", Path(folder) / "before"
        first = run(RESTORED, model, TEXT, session)
        assert first is not None
        before.write_text(first[0])
        second = run(RESTORED, model, TEXT, session, before)
        assert second is not None
        return second[0]


def rows(model: Path, others: list[Path]) -> list[tuple[str, str, str]]:
    """What was varied, the values, and what was found."""
    base = run(LOGITS, model, TEXT, 1, 0, "default")
    assert base is not None

    def same(digests: list[str | None], reference: str) -> str:
        compared = [digest for digest in digests if digest is not None]
        equal = sum(digest == reference for digest in compared)
        return "yes" if equal == len(compared) else f"no ({equal} of {len(compared)})"

    def logits(*cases: tuple[object, ...], **variables: str) -> list[str | None]:
        found = [run(LOGITS, model, TEXT, *case, **variables) for case in cases]
        return [None if one is None else one[0] for one in found]

    table = [
        ("a new process", "3 runs", same(logits(*[(1, 0, "default")] * 2), base[0])),
        ("threads", "1, 2, 3, 5", same(logits(*[(n, 0, "default") for n in (2, 3, 5)]), base[0])),
        (
            "tokens in a call",
            "all, 1, 7, 64",
            same(logits(*[(1, n, "default") for n in (1, 7, 64)]), base[0]),
        ),
    ]
    found = {
        name: run(LOGITS, model, TEXT, 1, 0, "default", THIMBLE_KERNELS=name) for name in KERNELS
    }
    ran = {name: one[0] for name, one in found.items() if one is not None}
    table.append(("instructions", ", ".join(ran), same(list(ran.values()), base[0])))
    table.append(("a restart from a session", "in the middle", same([restarted(model)], base[0])))
    alone = run(ANSWERS, model, TEXT, 0, "")
    assert alone is not None
    answers = [run(ANSWERS, model, TEXT, n, "") for n in (1, 2, 4)]
    digests = [None if one is None else one[0] for one in answers]
    table.append(("requests at once (sampled text)", "1, 2, 4", same(digests, alone[0])))
    drafted = run(ANSWERS, model, TEXT, 0, "ngram")
    assert drafted is not None
    table.append(("a draft (sampled text)", "none, ngram", same([drafted[0]], alone[0])))
    types = ("float32", "float16", "int8")
    caches = set(logits(*[(1, 0, name) for name in types]))
    told = "yes" if len(caches) == 1 else f"no ({len(caches)} results)"
    table.append(("the type of the key/value cache", ", ".join(types), told))
    for other in others:
        one = run(LOGITS, other, TEXT, 1, 0, "default")
        assert one is not None
        table.append(("another file of the same model", other.name, same([one[0]], base[0])))
    return table


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    model, *others = map(Path, sys.argv[1:])
    print(f"{model.name}, SHA-256 {hashlib.sha256(model.read_bytes()).hexdigest()[:12]}\n")
    print("| what varies | values | bit-identical |\n|---|---|---|")
    for row in rows(model, others):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
