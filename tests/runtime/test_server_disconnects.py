"""Streams of every interface, of which many are broken off: nothing is left behind."""

import asyncio
import random
import statistics
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.servers import Server, export_caller, resident, serving, wait_for

CLIENTS, SECONDS = 50, 180
WARM_UP = 60
USER = [{"role": "user", "content": "Once upon a time"}]
# Of each path: its body beside the model and how an answer's length is limited there, and the end
# of a complete stream. Stored responses would fill their store.
LIMIT = 60
STREAMS: dict[str, tuple[dict[str, Any], str]] = {
    "/v1/chat/completions": ({"messages": USER, "max_tokens": LIMIT}, "data: [DONE]"),
    "/v1/completions": ({"prompt": "Once upon", "max_tokens": LIMIT}, "data: [DONE]"),
    "/v1/responses": (
        {"input": "Once upon a time", "max_output_tokens": LIMIT, "store": False},
        '"type": "response.incomplete"',
    ),
    "/v1/messages": ({"messages": USER, "max_tokens": LIMIT}, '"type": "message_stop"'),
    "/api/chat": ({"messages": USER, "options": {"num_predict": LIMIT}}, '"done": true'),
    "/api/generate": (
        {"prompt": "Once upon a time", "options": {"num_predict": LIMIT}},
        '"done": true',
    ),
}


class Clients:
    """Ask until a moment, each with a random number generator of its own.

    Attributes:
        complete, left: streams by path.
    """

    def __init__(self, server: Server, until: float) -> None:
        self._address = server.address
        self._until = until
        self.complete = dict.fromkeys(STREAMS, 0)
        self.left = dict.fromkeys(STREAMS, 0)

    async def run(self) -> None:
        await asyncio.gather(*map(self._client, range(CLIENTS)))

    async def _client(self, seed: int) -> None:
        chance = random.Random(seed)
        async with httpx.AsyncClient(base_url=self._address, timeout=120) as client:
            while time.monotonic() < self._until:
                await self._stream(client, chance)

    async def _stream(self, client: httpx.AsyncClient, chance: random.Random) -> None:
        path = chance.choice(list(STREAMS))
        fields, end = STREAMS[path]
        body = {"model": "stories", "stream": True, **fields}
        leaves_after = chance.randrange(40) if chance.random() < 0.5 else None
        async with client.stream("POST", path, json=body) as response:
            assert response.status_code == 200, await response.aread()
            last, count = "", 0
            async for line in response.aiter_lines():
                if count == leaves_after:
                    self.left[path] += 1
                    return
                last, count = line or last, count + 1
        assert end in last or '"response.completed"' in last, (path, last)
        self.complete[path] += 1


async def sample(server: Server, until: float) -> list[int]:
    """The memory of the server's processes, a number each second."""
    processes = [server.process.pid, *server.model_processes()]
    found = []
    while time.monotonic() < until:
        await asyncio.sleep(1)
        found.append(sum(map(resident, processes)))
    return found


def first_token_s(server: Server) -> float:
    body = {"model": "stories", "messages": USER, "max_tokens": 4, "stream": True}
    began = time.monotonic()
    with httpx.stream("POST", server.address + "/v1/chat/completions", json=body) as response:
        for line in response.iter_lines():
            if '"content": "' in line and '"content": ""' not in line:
                return time.monotonic() - began
    raise AssertionError("the answer has no text")


@pytest.mark.soak
def test_streams_that_break_off_leave_nothing(
    cpp_build: Path, shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pte = export_caller(shared_data, tmp_path_factory)
    options = ("--threads", "1", "--parallel", "8", "--queue", str(2 * CLIENTS))
    with serving(pte, "--name", "stories", *options) as server:
        until = time.monotonic() + SECONDS
        clients = Clients(server, until)

        async def run() -> list[int]:
            memory, _ = await asyncio.gather(sample(server, until), clients.run())
            return memory

        memory = asyncio.run(run())
        first = min(first_token_s(server) for _ in range(3))
        wait_for(lambda: server.metric("thimble_running") == 0)
        assert all(
            count > 10 for counts in (clients.complete, clients.left) for count in counts.values()
        )
        after = memory[WARM_UP:]
        begin, end = statistics.median(after[:10]), statistics.median(after[-10:])
        told = f"{begin / 1e6:.1f} to {end / 1e6:.1f} MB, first token after {first:.3f} s"
        print(told, clients.complete, clients.left)
        assert end < 1.01 * begin and first < 0.2, told
