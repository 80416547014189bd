"""A crowd of clients that ask, stream, hang up and send rubbish, while the model's process dies now
and then: those that stay get what a quiet server says, and nothing is left behind."""

import asyncio
import json
import os
import random
import signal
import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.servers import Server, export_caller, resident, serving, wait_for
from support.stories import WITHOUT_ENDS

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


DEAD = (500, 503)  # while the model's process is gone
SOAK_SECONDS = int(os.environ.get("THIMBLE_SOAK_SECONDS", "600"))


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

    Attributes:
        answered, failed: requests that were answered, and that the model's death ended.
        waited: seconds for an answer, of each that came at once.
    """

    def __init__(self, server: Server, quiet: list[list[Any]]) -> None:
        self._address = server.address
        self._quiet = quiet
        self.answered = self.failed = 0
        self.waited: list[float] = []

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
        began = time.monotonic()
        response = await client.post("/v1/chat/completions", json=body(number))
        if response.status_code == 429:  # there is no place
            assert "try again" in response.json()["error"]["message"]
            return
        if response.status_code in DEAD:
            assert "model" in response.json()["error"]["message"]
            self.failed += 1
            return
        assert response.status_code == 200, response.text
        self.waited.append(time.monotonic() - began)
        assert told(response.json()) == self._quiet[number]
        self.answered += 1

    async def _stream(self, client: httpx.AsyncClient, chance: random.Random) -> None:
        number = chance.randrange(len(self._quiet))
        wanted = {**body(number), "stream": True}
        texts: dict[int, str] = {}
        async with client.stream("POST", "/v1/chat/completions", json=wanted) as response:
            if response.status_code in (429, *DEAD):
                self.failed += response.status_code in DEAD
                return
            assert response.status_code == 200
            lines = [line async for line in response.aiter_lines() if line]
        if '"error"' in lines[-1] or '"error"' in lines[-2]:
            assert "the model's process ended" in "".join(lines[-2:])
            self.failed += 1
            return
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
        wanted["logit_bias"] = WITHOUT_ENDS
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
        assert response.status_code in (status, *DEAD) and response.json()["error"]["message"]

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


async def kill_models(server: Server, chance: random.Random) -> None:
    """Kills the model's process in the middle of a round."""
    await asyncio.sleep(chance.uniform(0.1, 1.5))
    for process in server.model_processes():
        os.kill(process, signal.SIGKILL)


def is_ready(server: Server) -> bool:
    return httpx.get(server.address + "/health").status_code == 200


def bear(pte: Path, clients: int, requests: int, rounds: int, seconds: float = 0) -> None:
    """A crowd, several times and for some seconds, in every second round of which the model's
    process is killed; what a round leaves behind is nothing."""
    options = ("--threads", "1", "--parallel", "8", "--queue", str(4 * clients), "--draft", "ngram")
    with serving(pte, "--name", "stories", *options) as server:
        quiet = quiet_answers(server)
        crowd, chance = Crowd(server, quiet), random.Random(7)
        process, deaths = server.process.pid, 0
        memory: list[tuple[float, int, int]] = []
        left: dict[str, int] = {}
        begin = time.monotonic()

        async def round(kills: bool) -> None:
            killing = [kill_models(server, chance)] if kills else []
            await asyncio.gather(crowd.run(clients, requests), *killing)

        while len(memory) < rounds or time.monotonic() < begin + seconds:
            before, kills = crowd.answered + crowd.failed, len(memory) % 2 == 1
            asyncio.run(round(kills))
            deaths += kills
            assert crowd.answered + crowd.failed > before
            wait_for(partial(is_ready, server))
            wait_for(lambda: server.metric("thimble_running") == 0)
            left = left or held(server)
            wait_for(partial(nothing_more, server, left))
            sizes = resident(process), resident(server.model_process())
            memory.append((time.monotonic() - begin, *sizes))
        assert server.metric("thimble_model_restarts") == deaths
        told = report(crowd, deaths, memory)
        print(told)
        # The first round fills what is kept for reuse; after that it stays.
        sums = [own + model for _, own, model in memory]
        assert max(sums[1:]) < sums[0] + (16 << 20) + sums[0] // 10, told
        if growth(memory) is not None:
            assert growth(memory) < 1.01, told
        assert crowd.answered > crowd.failed and quiet_answers(server) == quiet


def growth(memory: list[tuple[float, int, int]]) -> float | None:
    """How much more the server itself holds in the end than after a minute; None: too short."""
    after = [own for second, own, _ in memory if second > 60]
    if len(after) < 20:
        return None
    return statistics.median(after[-10:]) / statistics.median(after[:10])


def report(crowd: Crowd, deaths: int, memory: list[tuple[float, int, int]]) -> str:
    """One sentence of numbers."""
    hundredths = statistics.quantiles(crowd.waited, n=100)
    grown = growth(memory)
    return (
        f"{memory[-1][0]:.0f} s, {len(memory)} rounds, {crowd.answered} answers, {crowd.failed} "
        f"failed by {deaths} deaths; answers took {hundredths[49]:.2f} s (median), "
        f"{hundredths[94]:.2f} s (of 95%); server {memory[0][1] / 1e6:.1f} to "
        f"{memory[-1][1] / 1e6:.1f} MB, model {memory[0][2] / 1e6:.1f} to "
        f"{memory[-1][2] / 1e6:.1f} MB, growth {'not told' if grown is None else f'{grown:.4f}'}"
    )


@pytest.mark.check
def test_twenty_clients(cpp_build: Path, pte: Path) -> None:
    bear(pte, clients=20, requests=12, rounds=3)


@pytest.mark.soak
def test_a_hundred_clients(cpp_build: Path, pte: Path) -> None:
    """For ten minutes, or THIMBLE_SOAK_SECONDS."""
    bear(pte, clients=100, requests=5, rounds=5, seconds=SOAK_SECONDS)
