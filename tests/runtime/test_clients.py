"""Clients of others, each with its own packages and its own defaults: tests/clients has a program
for each. The table in runtime/server/README.md is what this file prints.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.call_templates import HERMES
from support.chats import export_chat_model
from support.encoder_models import save_bert
from support.node import find_node
from support.servers import serving
from support.stories import write_endless_head

from exporter.embedding.pipeline import EmbeddingOptions, export_embedding
from quant.scheme import Scheme

pytestmark = pytest.mark.soak

PROGRAMS = Path(__file__).resolve().parents[1] / "clients"
README = Path(__file__).resolve().parents[2] / "runtime" / "server" / "README.md"
PERIOD = 426  # the token of "."
CASES = ("chat", "stream", "schema", "tools", "embeddings", "cancel", "overflow")
UNREACHABLE = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONN\w+|ETIMEDOUT|ERR_SOCKET|NewConnectionError|Read timed out"
)


@dataclass(frozen=True)
class Client:
    """
    Attributes:
        packages: of PyPI, or of npm where the program ends with .mjs; the first is the client.
        cases: what the client has: a stream that it does not let go of has no cancel, and objects
            for which it asks in words alone are none.
        argument: the program's, if it has one.
    """

    program: str
    packages: tuple[str, ...]
    cases: str
    argument: str = ""

    @property
    def name(self) -> str:
        """Such as "openai 3.57.0"."""
        package, version = self.packages[0].rsplit("==" if self.is_python else "@", 1)
        package = package.partition("[")[0]
        words = [package, version]
        if self.argument not in package:
            words.append(self.argument)
        return " ".join([*words, *([] if self.is_python else ["(Node)"])])

    @property
    def row(self) -> str:
        """Of the table."""
        return f"| {self.name} | {self.cases.replace(' ', ', ')} |"

    @property
    def is_python(self) -> bool:
        return self.program.endswith(".py")


ALL = " ".join(CASES)
NO_EMBEDDINGS = "chat stream schema tools cancel overflow"
OPENAI = "openai==3.57.0"
LANGGRAPH = ("langgraph==1.2.24", "langchain-openai==1.7.4")
OTHERS_OF_LANGCHAIN = ("langchain-anthropic==1.7.10", "langchain-ollama==1.1.0")
LANGCHAIN = (*LANGGRAPH, *OTHERS_OF_LANGCHAIN)
AI_SDK = (
    *("@ai-sdk/anthropic@4.0.105", "@ai-sdk/openai@4.0.118"),
    *("@ai-sdk/openai-compatible@3.0.92", "ai@7.0.173", "zod@4.6.7"),
)


def first(name: str, packages: tuple[str, ...]) -> tuple[str, ...]:
    """The packages, with the client in front that has this name."""
    return tuple(sorted(packages, key=lambda package: not package.startswith(name)))


CLIENTS = (
    Client("with_openai.py", (OPENAI,), ALL),
    Client("with_openai_responses.py", (OPENAI,), NO_EMBEDDINGS, "responses"),
    Client("with_anthropic.py", ("anthropic==2.14.0",), NO_EMBEDDINGS),
    Client("with_ollama.py", ("ollama==0.6.3", "pydantic==2.14.4"), NO_EMBEDDINGS),
    Client("with_litellm.py", ("litellm==1.110.2",), ALL),
    Client("with_openai_agents.py", ("openai-agents==0.24.0",), NO_EMBEDDINGS),
    Client("with_pydantic_ai.py", ("pydantic-ai-slim[openai]==2.68.0",), NO_EMBEDDINGS),
    Client("with_instructor.py", ("instructor==1.17.0",), "chat schema overflow"),
    Client("with_langchain.py", first("langchain-openai", LANGCHAIN), ALL, "openai"),
    Client("with_langchain.py", first("langchain-a", LANGCHAIN), NO_EMBEDDINGS, "anthropic"),
    Client("with_langchain.py", first("langchain-ol", LANGCHAIN), NO_EMBEDDINGS, "ollama"),
    Client("with_langchain.py", LANGCHAIN, "chat stream tools overflow", "langgraph"),
    Client(
        "with_llama_index.py",
        ("llama-index-llms-openai-like==0.8.1", "llama-index-embeddings-openai-like==0.4.0"),
        ALL,
    ),
    Client("with_haystack.py", ("haystack-ai==3.4.1",), ALL),
    Client("with_magentic.py", ("magentic==0.41.1",), "chat stream schema tools overflow"),
    Client("with_mirascope.py", ("mirascope[openai]==2.8.2",), "chat stream schema overflow"),
    Client("with_inspect_ai.py", ("inspect-ai==0.3.285", OPENAI), "chat schema tools overflow"),
    Client("with_llm.py", ("llm==0.36",), "chat stream schema cancel overflow"),
    Client("with_dspy.py", ("dspy[numpy]==3.4.1",), "chat embeddings overflow"),
    Client(
        "with_smolagents.py", ("smolagents[openai]==1.26.0",), "chat stream schema tools overflow"
    ),
    Client("with_autogen.py", ("autogen-ext[openai]==0.7.5",), NO_EMBEDDINGS),
    Client(
        "with_semantic_kernel.py",
        ("semantic-kernel==1.45.0",),
        "chat stream schema tools embeddings overflow",
    ),
    Client("with_agno.py", ("agno==3.1.10", OPENAI), "chat stream schema overflow"),
    Client("with_aisuite.py", ("aisuite[openai]==0.2.0",), "chat schema overflow"),
    Client(
        "with_strands.py", ("strands-agents[openai]==1.62.0",), "chat stream schema tools overflow"
    ),
    Client("with_mistralai.py", ("mistralai==3.7.0",), ALL),
    Client(
        "with_huggingface_hub.py", ("huggingface_hub==2.4.0", "pydantic==2.14.4"), NO_EMBEDDINGS
    ),
    Client("with_hosts.py", ("together==3.1.1",), ALL, "together"),
    Client("with_hosts.py", ("groq==1.7.0",), ALL, "groq"),
    Client("with_openai.mjs", ("openai@7.59.0",), ALL),
    Client("with_anthropic.mjs", ("@anthropic-ai/sdk@1.14.0",), NO_EMBEDDINGS),
    Client("with_ollama.mjs", ("ollama@0.6.4",), NO_EMBEDDINGS),
    Client("with_ai_sdk.mjs", first("@ai-sdk/openai@", AI_SDK), ALL, "openai"),
    Client("with_ai_sdk.mjs", first("@ai-sdk/openai-c", AI_SDK), ALL, "compatible"),
    Client("with_ai_sdk.mjs", first("@ai-sdk/a", AI_SDK), NO_EMBEDDINGS, "anthropic"),
    Client("with_langchain.mjs", ("@langchain/openai@1.6.0", "@langchain/core@1.4.0"), ALL),
)


@pytest.fixture(scope="module")
def addresses(
    cpp_build: Path, shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[str]]:
    """Of a model that chats, of one that never ends an answer, and of one of embeddings.

    The first ends an answer at its first period; both are nearly greedy.
    """
    directory = tmp_path_factory.mktemp("clients")

    def chat(name: str, context: int, ends: list[int] | None = None) -> Path:
        source = shutil.copytree(shared_data / "stories260K", directory / f"{name}-source")
        config = json.loads((source / "config.json").read_text())
        config["max_position_embeddings"] = context
        if ends is None:
            config["tie_word_embeddings"] = False
            write_endless_head(source / "model.safetensors")
        else:
            config["eos_token_id"] = ends
        (source / "config.json").write_text(json.dumps(config))
        sampling = {"do_sample": True, "temperature": 0.01}
        (source / "generation_config.json").write_text(json.dumps(sampling))
        out = directory / name
        out.mkdir()
        return export_chat_model(source, out, template=HERMES, max_context_len=context)

    save_bert(directory, "mean_tokens")
    encoder = directory / "encoder.pte"
    export_embedding(EmbeddingOptions(directory, encoder, Scheme("rtn8")))
    models = (
        (chat("ending", 2048, [2, PERIOD]), "stories"),
        (chat("endless", 16384), "stories"),
        (encoder, "encoder"),
    )
    with ExitStack() as opened:
        servers = [
            opened.enter_context(serving(model, "--name", name, "--threads", "1"))
            for model, name in models
        ]
        yield [server.address for server in servers]


def run(command: list[str | Path], **options: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, timeout=900, **options)


def install(client: Client, directory: Path) -> list[str | Path]:
    """Installs a client's packages; returns the command that runs its program there."""
    if client.is_python:
        run([sys.executable, "-m", "venv", "--without-pip", directory])
        python = directory / "bin" / "python"
        command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
        result = run([*command, "--prefer-binary", *client.packages])
        program = [python, "-W", "ignore", PROGRAMS / client.program]
    else:
        node = find_node()
        npm = node.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        options = ["--no-audit", "--no-fund", "--ignore-scripts", "--prefix", directory]
        result = run([node, npm, "install", *options, *client.packages], cwd=directory)
        for source in PROGRAMS.glob("*.mjs"):
            shutil.copy(source, directory)
        program = [node, directory / client.program]
    if result.returncode != 0 and UNREACHABLE.search(result.stderr):
        pytest.skip(f"the registry cannot be reached: {result.stderr.strip().splitlines()[-1]}")
    assert result.returncode == 0, result.stderr
    return program


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client(client: Client, addresses: list[str], tmp_path: Path) -> None:
    directory = tmp_path / "client"
    directory.mkdir()
    try:
        program = install(client, directory)
        result = run([*program, *addresses, client.argument], cwd=tmp_path)
    finally:
        shutil.rmtree(directory)  # hundreds of megabytes
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout.splitlines()[-1])
    assert found == dict.fromkeys(client.cases.split(), ""), result.stderr[-5000:]


def test_the_table() -> None:
    rows = [client.row for client in CLIENTS]
    print("\n".join(["", *rows]))
    missing = [row for row in rows if row not in README.read_text("utf-8")]
    assert not missing, "runtime/server/README.md lacks:\n" + "\n".join(missing)
