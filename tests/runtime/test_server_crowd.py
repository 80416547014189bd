"""A crowd of clients that ask, stream, hang up and send rubbish: those that stay get what a quiet
server says, and nothing is left behind."""

import asyncio
import json
import random
import time
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.servers import Server, export_caller, resident, serving, wait_for

TEXTS = ("Once upon a time", "One day, a dog", "The cat sat", "Lily and Tom", "It was late")
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 6}, "old": {"type": "boolean"}},
    "required": ["name", "old"],
    "additionalProperties": False,
}
RUBBISH: list[tuple[bytes, dict[str, str], int]] = [
    (b"{", {"content-type": "application/json"}, 400),
    (b"\xff\xfe\x00", {"content-type": "application/json"}, 400),
    (b"[" * 5000, {"content-type": "application/json"}, 400),
    (b"{}", {"content-type": "text/plain"}, 415),
    (b'{"model":"stories","messages":"x"}', {"content-type": "application/json"}, 400),
    (b'{"model":"other","messages":[{"role":"user","content":"x"}]}',
     {"content-type": "application/json"}, 404),
]  # fmt: skip
RAW = (b"", b"GET", b"\x16\x03\x01\x02\x00", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n")
RAW += (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",)


@pytest.fixture(scope="module")
def pte(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_caller(shared_data, tmp_path_factory)


def body(number: int) -> dict[str, Any]:
    """One of 40 requests, which has always the same answer."""
    found: dict[str, Any] = {"model": "stories", "max_tokens": 8 + number % 30, "seed": number}
    found["messages"] = [{"role": "user", "content": TEXTS[number % len(TEXTS)]}]
    if number % 4 == 1:
        schema = {"name": "person", "schema": SCHEMA, "strict": True}
        found["response_format"] = {"type": "json_schema", "json_schema": schema}
    if number % 4 == 2:
        found |= {"logprobs": True, "top_logprobs": 2, "frequency_penalty": 0.5}
    if number % 4 == 3:
        found["n"] = 2
    return found


def told(answer: dict[str, Any]) -> list[Any]:
    return [(choice["message"], choice["finish_reason"]) for choice in answer["choices"]]


class Crowd:
    """Clients of a server, each with a random number generator of its own.

    Args:
        quiet: what each request is answered by a server that has no other.
    """

    def __init__(self, server: Server, quiet: list[list[Any]]) -> None:
        self._address = server.address
        self._quiet = quiet
        self.answered = 0

    async def run(self, clients: int, requests: int) -> None:
        await asyncio.gather(*(self._client(seed, requests) for seed in range(clients)))

    async def _client(self, seed: int, requests: int) -> None:
        chance = random.Random(seed)
        limits = httpx.Timeout(600)
        async with httpx.AsyncClient(base_url=self._address, timeout=limits) as client:
            for _ in range(requests):
                act = chance.choice(
                    [self._ask, self._ask, self._stream, self._leave, self._rubbish]
                )
                await act(client, chance)

    async def _ask(self, client: httpx.AsyncClient, chance: random.Random) -> None:
        number = chance.randrange(len(self._quiet))
        response = await client.post("/v1/chat/completions", json=body(number))
        if response.status_code == 429:  # there is no place
            assert "try again" in response.json()["error"]["message"]
            return
        assert response.status_code == 200, response.text
        assert told(response.json()) == self._quiet[number]
        self.answered += 1

    async def _stream(self, client: httpx.AsyncClient, chance: random.Random) -> None:
        number = chance.randrange(len(self._quiet))
        wanted = {**body(number), "stream": True}
        texts: dict[int, str] = {}
        async with client.stream("POST", "/v1/chat/completions", json=wanted) as response:
            if response.status_code == 429:
                return
            assert response.status_code == 200
            lines = [line async for line in response.aiter_lines() if line]
        assert lines[-1] == "data: [DONE]"
        for line in lines[:-1]:
            for choice in json.loads(line.removeprefix("data: "))["choices"]:
                delta = choice["delta"].get("content") or ""
                texts[choice["index"]] = texts.get(choice["index"], "") + delta
        expected = [message["content"] or "" for message, _ in self._quiet[number]]
        assert [texts[index] for index in sorted(texts)] == expected
        self.answered += 1

    async def _leave(self, client: httpx.AsyncClient, chance: random.Random) -> None:
        """Hangs up: before the answer, after its first lines, or before the request is complete."""
        wanted: dict[str, Any] = {**body(chance.randrange(40)), "max_tokens": 500}
        wanted["logit_bias"] = {"2": -100}
        how = chance.randrange(3)
        if how == 0:
            async with client.stream(
                "POST", "/v1/chat/completions", json={**wanted, "stream": True}
            ) as response:
                async for _ in response.aiter_lines():
                    if chance.random() < 0.3:
                        break
            return
        content = json.dumps(wanted).encode()
        head = [
            "POST /v1/chat/completions HTTP/1.1",
            "Host: localhost",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
        ]
        sent = "\r\n".join([*head, "", ""]).encode() + content
        await self._raw(sent if how == 1 else sent[:-5])

    async def _rubbish(self, client: httpx.AsyncClient, chance: random.Random) -> None:
        if chance.random() < 0.3:
            await self._raw(chance.choice(RAW))
            return
        content, headers, status = chance.choice(RUBBISH)
        response = await client.post("/v1/chat/completions", content=content, headers=headers)
        assert response.status_code == status and response.json()["error"]["message"]

    async def _raw(self, data: bytes) -> None:
        """Sends bytes and hangs up."""
        url = httpx.URL(self._address)
        _, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(data)
        await writer.drain()
        writer.close()


def open_files(process: int) -> int:
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def threads(process: int) -> int:
    return len(list(Path(f"/proc/{process}/task").iterdir()))


def held(server: Server) -> dict[str, int]:
    model = server.model_process()
    return {
        "files": open_files(server.process.pid),
        "model's files": open_files(model),
        "threads": threads(server.process.pid),
        "model's threads": threads(model),
    }


def nothing_more(server: Server, than: dict[str, int]) -> bool:
    return all(count <= than[name] + 2 for name, count in held(server).items())


def quiet_answers(server: Server) -> list[list[Any]]:
    found = []
    for number in range(40):
        response = httpx.post(
            server.address + "/v1/chat/completions", json=body(number), timeout=600
        )
        assert response.status_code == 200, response.text
        found.append(told(response.json()))
    return found


def bear(pte: Path, clients: int, requests: int, rounds: int, seconds: float = 0) -> None:
    """A crowd, several times and for some seconds; what a round leaves behind is nothing."""
    options = ("--threads", "1", "--parallel", "8", "--queue", str(4 * clients), "--draft", "ngram")
    with serving(pte, "--name", "stories", *options) as server:
        quiet = quiet_answers(server)
        crowd = Crowd(server, quiet)
        process, model = server.process.pid, server.model_process()
        memory: list[int] = []
        left: dict[str, int] = {}
        end = time.monotonic() + seconds
        while len(memory) < rounds or time.monotonic() < end:
            before = crowd.answered
            asyncio.run(crowd.run(clients, requests))
            assert crowd.answered > before
            wait_for(lambda: server.metric("thimble_running") == 0)
            left = left or held(server)
            wait_for(partial(nothing_more, server, left))
            memory.append(resident(process) + resident(model))
        assert server.model_process() == model and server.metric("thimble_model_restarts") == 0
        # The first round fills what is kept for reuse; after that it stays.
        assert max(memory[1:]) < memory[0] + (16 << 20) + memory[0] // 10, memory
        assert quiet_answers(server) == quiet


@pytest.mark.check
def test_twenty_clients(cpp_build: Path, pte: Path) -> None:
    bear(pte, clients=20, requests=12, rounds=3)


@pytest.mark.soak
def test_a_hundred_clients(cpp_build: Path, pte: Path) -> None:
    """For ten minutes."""
    bear(pte, clients=100, requests=15, rounds=5, seconds=600)
