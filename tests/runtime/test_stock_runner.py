"""A `.pte` of ours in stock ExecuTorch: its own LLM runner says the tokens that the model says.

TextLLMRunner takes the tokenizer as a file beside the program: a tokenizer.json, a file of tiktoken
ranks, a SentencePiece model, or llama2.c's tokenizer, which it tries in this order.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import sentencepiece
import torch
from support.loading import loaded
from torch import Tensor

from delegates import Step
from delegates.xnnpack.lower import load
from exporter.checkpoint import open_checkpoint
from exporter.models.decoder import CausalLM

PROMPTS = ["Once upon a time", "The dog was very", "Lily and Tom went to the park. They"]
NEW_TOKENS = 60

Generate = Callable[[Path, str], list[str]]


@pytest.fixture(scope="module")
def tokenizer_file(shared_data: Path) -> Path:
    return shared_data / "stories260K" / "tokenizer.model"


@pytest.fixture
def generate(tokenizer_file: Path, capfd: pytest.CaptureFixture[str]) -> Generate:
    """Pieces of text, one per token, that the stock runner says after a prompt with BOS."""
    import executorch.kernels.quantized  # noqa: F401  (registers its kernels)
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401
    from executorch.extension.llm.runner import GenerationConfig, TextLLMRunner

    def run(path: Path, prompt: str) -> list[str]:
        config = GenerationConfig(max_new_tokens=NEW_TOKENS, temperature=0.0, echo=False, num_bos=1)
        pieces: list[str] = []
        TextLLMRunner(str(path), str(tokenizer_file)).generate(
            prompt, config, token_callback=pieces.append
        )
        return pieces

    return run


def greedy(step: Step, prompt: list[int], eos: int) -> list[int]:
    """The most likely tokens after a prompt, as many as the stock runner is asked for."""
    tokens, at, said = torch.tensor([prompt]), 0, list[int]()
    with torch.no_grad():
        while len(said) < NEW_TOKENS:
            said.append(int(step(tokens, torch.tensor([at])).argmax()))
            if said[-1] == eos:
                break
            at += tokens.shape[1]
            tokens = torch.tensor([said[-1:]])
    return said


def pieces_of(tokenizer: sentencepiece.SentencePieceProcessor, tokens: list[int]) -> list[str]:
    return [
        chr(int(tokenizer.id_to_piece(token)[3:5], 16))  # such as "<0x0A>"
        if tokenizer.is_byte(token)
        else tokenizer.id_to_piece(token).replace("\u2581", " ")
        for token in tokens
    ]


def recomputing(model: CausalLM) -> Step:
    """A model without a cache: it reads the whole text anew."""
    text: list[int] = []

    def step(tokens: Tensor, at: Tensor) -> Tensor:
        text[int(at) :] = tokens[0].tolist()
        return model.logits(torch.tensor([text]))[:, -1]

    return step


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("file", ["stories_pte", "stories_pte"])
def test_stock_generates_the_tokens_of_the_model(
    file: str,
    prompt: str,
    generate: Generate,
    tokenizer_file: Path,
    request: pytest.FixtureRequest,
) -> None:
    """In float32, those of eager. With int8 activations a rounding that falls the other way may
    turn a near tie, so there those of the program itself, whose logits the export compared."""
    path: Path = request.getfixturevalue(file)
    if file == "stories_pte":
        step = recomputing(loaded(open_checkpoint(tokenizer_file.parent)))
    else:
        step = load(path)
        assert step is not None
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer_file))
    ids = [tokenizer.bos_id(), *tokenizer.encode(prompt)]
    expected = greedy(step, ids, tokenizer.eos_id())
    assert len(expected) == NEW_TOKENS
    assert generate(path, prompt) == pieces_of(tokenizer, expected)


def test_stock_continues_the_golden_text(
    generate: Generate, stories_pte: Path, shared_data: Path
) -> None:
    golden = (shared_data / "stories260K" / "golden.txt").read_text(encoding="utf-8")
    prompt = "Once upon a time"  # the stock runner cannot start from BOS alone
    text = prompt + "".join(generate(stories_pte, prompt))
    assert len(text) > 100 and golden.startswith(text)


def test_the_runner_of_this_package_generates_the_same(
    generate: Generate, stories_pte: Path, cpp_build: Path
) -> None:
    from runtime import Runner

    with Runner(stories_pte, threads=1) as runner:
        for prompt in PROMPTS:
            ours = "".join(runner.generate(prompt, NEW_TOKENS))
            assert ours == "".join(generate(stories_pte, prompt))


def test_stock_reads_the_facts(stories_pte: Path) -> None:
    from executorch.extension.pybindings.portable_lib import _load_for_executorch

    module = _load_for_executorch(str(stories_pte))
    facts = {
        name: module.run_method(name, ()) for name in module.method_names() if name != "forward"
    }
    assert facts == {
        "get_max_seq_len": [512],
        "get_max_context_len": [512],
        "enable_dynamic_shape": [True],
        "get_vocab_size": [512],
        "use_kv_cache": [True],
        "use_sdpa_with_kv_cache": [True],
        "get_bos_id": [1],
        "get_eos_ids": [2],
    }


def test_the_forward_method_has_two_inputs_and_one_output(stories_pte: Path) -> None:
    from executorch.extension.pybindings.portable_lib import _load_for_executorch

    meta = _load_for_executorch(str(stories_pte)).method_meta("forward")
    assert meta.num_inputs() == 2 and meta.num_outputs() == 1
    assert list(meta.input_tensor_meta(0).sizes()) == [1, 512]
    assert list(meta.input_tensor_meta(1).sizes()) == [1]
    assert list(meta.output_tensor_meta(0).sizes()) == [1, 512]
