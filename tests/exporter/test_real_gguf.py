"""Published GGUF files, exported whole: the text is that of transformers on the same weights."""

import subprocess
from pathlib import Path

import pytest
import torch
from support.exported import Quiet
from support.real_models import gemma3, smollm2

from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme

PROMPT = "Once upon a time, there was a little girl who"
TOKENS = 64


@pytest.fixture(scope="module", params=[smollm2, gemma3])
def gguf(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return request.param(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def smollm2_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return smollm2(tmp_path_factory.mktemp("smollm2"))


def export(path: Path, out: Path, scheme: str) -> Path:
    options = ExportOptions(
        model=str(path),
        out=out,
        scheme=Scheme(scheme),
        calibration_tokens=4096,
        delegate="cpu",
        max_context_len=512,
    )
    return export_model(options, Quiet()).out


def text_of_transformers(path: Path) -> str:
    """The greedy continuation of the prompt by transformers, whose tokenizer is its own too."""
    pytest.importorskip("accelerate", reason="transformers reads GGUF only beside accelerate")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    model = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    )
    prompt = tokenizer(PROMPT, return_tensors="pt").input_ids
    made = model.generate(prompt, max_new_tokens=TOKENS, do_sample=False)
    assert made.shape[1] == prompt.shape[1] + TOKENS  # it did not end before
    return tokenizer.decode(made[0, prompt.shape[1] :])


@pytest.mark.soak
def test_the_runner_generates_what_transformers_generates(
    gguf: Path, cpp_build: Path, tmp_path: Path
) -> None:
    expected = text_of_transformers(gguf)
    pte = export(gguf, tmp_path / "model.pte", "none")
    command = [cpp_build / "runner", pte, "-p", PROMPT, "-n", str(TOKENS), "--temperature", "0"]
    outcome = subprocess.run(command, capture_output=True, text=True, check=True)
    assert outcome.stdout.rstrip("\n") == expected.rstrip("\n")


@pytest.mark.soak
def test_smollm2_in_4_bits_answers_in_a_chat(
    smollm2_gguf: Path, cpp_build: Path, tmp_path: Path
) -> None:
    pte = export(smollm2_gguf, tmp_path / "smollm2.pte", "gptq4")
    question = "What is the capital of France?"
    command = [cpp_build / "runner", pte, "--chat", "-p", question, "-n", "48"]
    outcome = subprocess.run(
        [*command, "--temperature", "0"], capture_output=True, text=True, check=True
    )
    assert "Paris" in outcome.stdout
