"""Clients that read slowly, or not at all: what was generated in time is theirs, and nothing waits
for them for ever."""

import asyncio
import json
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.servers import Server, export_caller, serving, wait_for
from support.stories import WITHOUT_ENDS

from runtime.binding.logprobs import TokenLogprob
from runtime.server.connections import Readers
from runtime.server.interface import OPENAI
from runtime.server.model import Answer, Model
from runtime.server.model_process import Ended, ModelOptions, More
from runtime.server.streams import progress_of

# More than the buffers of a connection hold: some 5 MB.
LONG: dict[str, Any] = {
    "model": "stories",
    "messages": [{"role": "user", "content": "Once upon a time"}],
    "n": 4,
    "seed": 1,
    "max_tokens": 600,
    "logit_bias": WITHOUT_ENDS,
    "logprobs": True,
    "top_logprobs": 20,
    "stream": True,
}


@pytest.fixture(scope="module")
def pte(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_caller(shared_data, tmp_path_factory)


@contextmanager
def asking(server: Server, body: dict[str, Any]) -> Iterator[socket.socket]:
    """A connection on which a request was sent, and nothing is read."""
    url = httpx.URL(server.address)
    content = json.dumps(body).encode()
    head = [
        "POST /v1/chat/completions HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
    ]
    with socket.create_connection((url.host, url.port), timeout=120) as connection:
        connection.sendall("\r\n".join([*head, "", ""]).encode() + content)
        yield connection


def generated(server: Server) -> float:
    return server.metric('thimble_tokens_total{kind="generated"}')


def is_closed(connection: socket.socket) -> bool:
    """Waits until the server has closed it, without reading; false if it does not."""
    poll = select.poll()
    poll.register(connection, 0)
    return bool(poll.poll(120_000))


@pytest.mark.check
def test_one_who_stops_reading_is_disconnected(cpp_build: Path, pte: Path) -> None:
    options = ("--name", "stories", "--threads", "1", "--stall-timeout", "0.3")
    with serving(pte, *options) as server:
        for stream in (True, False):
            with asking(server, {**LONG, "stream": stream}) as connection:
                assert is_closed(connection)
            wait_for(lambda: server.metric("thimble_running") == 0)


@pytest.mark.check
def test_one_who_reads_nothing_holds_no_place_beyond_the_timeout(
    cpp_build: Path, pte: Path
) -> None:
    """Its answers end at the timeout, long before they are complete."""
    with serving(pte, "--name", "stories", "--threads", "1", "--timeout", "0.2") as server:
        with asking(server, {**LONG, "n": 16, "max_tokens": 1900}):
            wait_for(lambda: server.metric("thimble_running") > 0 or generated(server) > 0)
            wait_for(lambda: server.metric("thimble_running") == 0)
            assert generated(server) < 16 * 1900


@pytest.mark.check
def test_one_who_reads_late_gets_everything(cpp_build: Path, pte: Path) -> None:
    """It begins to read when all is generated and most of it waits in the server."""
    with serving(pte, "--name", "stories", "--threads", "1") as server:
        with asking(server, LONG) as connection:
            wait_for(lambda: generated(server) > 0 and server.metric("thimble_running") == 0)
            received = b""
            while not received.endswith(b"\r\n0\r\n\r\n"):
                part = connection.recv(1 << 20)
                assert part
                received += part
        address = server.address + "/v1/chat/completions"
        quiet = httpx.post(address, json={**LONG, "stream": False}, timeout=120).json()
    assert b"data: [DONE]" in received
    choices = quiet["choices"]
    assert received.count(b'"finish_reason": "') == len(choices)
    tokens = sum(len(choice["logprobs"]["content"]) for choice in choices)
    assert tokens > 1000 and received.count(b'"top_logprobs"') == tokens


@pytest.mark.parametrize(
    ("earlier", "sent"), [(0, b""), (0, b"POST /v1/chat/comp"), (1, b"POST /v1/chat/comp")]
)
def test_one_who_does_not_send_its_request_is_disconnected(
    server_of_the_impatient: Server, earlier: int, sent: bytes
) -> None:
    url = httpx.URL(server_of_the_impatient.address)
    with socket.create_connection((url.host, url.port), timeout=60) as connection:
        for _ in range(earlier):
            connection.sendall(b"GET /favicon.ico HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 204 ")
        connection.sendall(sent)
        assert is_closed(connection)


def test_a_body_that_does_not_come(server_of_the_impatient: Server) -> None:
    url = httpx.URL(server_of_the_impatient.address)
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection((url.host, url.port), timeout=120) as connection:
        connection.sendall(head + b'Content-Length: 99\r\n\r\n{"model"')
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 408 ")


@pytest.fixture(scope="module")
def server_of_the_impatient(cpp_build: Path, pte: Path) -> Iterator[Server]:
    options = ("--timeout", "0.2", "--stall-timeout", "0.2")
    with serving(pte, "--name", "stories", "--threads", "1", *options) as server:
        yield server


def more(text: str) -> More:
    return More(1, [text], [TokenLogprob(5, text.encode(), -1.0, [])])


def answer_of(events: list[Any]) -> Answer:
    answer = Answer(Model(ModelOptions(Path("none"))), 1)
    for event in events:
        answer.events.put_nowait(event)
    return answer


def test_what_was_generated_in_time_is_read_after_it() -> None:
    async def read() -> list[Any]:
        complete = answer_of([more("a"), more("b"), Ended(1, {"stop_reason": "stop"})])
        found: list[Any] = []
        async with progress_of([complete], asyncio.get_running_loop().time()) as progress:
            await asyncio.sleep(0.01)  # the deadline is over
            async for _, event in progress.events():
                found.append(event and (event.text, len(event.logprobs)))
        return found

    assert asyncio.run(read()) == [("ab", 2), None]


@pytest.mark.parametrize("generated", [0, 1])
def test_the_deadline_ends_an_answer_that_nobody_reads(generated: int) -> None:
    async def read() -> tuple[list[Any], dict[str, Any]]:
        endless = answer_of([more("a")])
        cancelled: list[Answer] = []
        endless._model.cancel = cancelled.append  # type: ignore[method-assign]
        ending = Ended(1, {"stop_reason": "interrupted", "generated_tokens": generated})
        found: list[Any] = []
        async with progress_of([endless], asyncio.get_running_loop().time()) as progress:
            while not cancelled:
                await asyncio.sleep(0)
            endless.events.put_nowait(ending)
            with nullcontext() if generated else pytest.raises(TimeoutError):
                async for _, event in progress.events():
                    found.append(event and event.text)
        return found, OPENAI.remarks([{"stop_reason": "length"}, endless.stats], ())

    assert asyncio.run(read()) == (["a", None] if generated else ["a"], {"timed_out": True})


class Watched:
    """What Readers does to a connection that is behind."""

    def __init__(self) -> None:
        self.ended = False

    def abort(self) -> None:
        self.ended = True


@pytest.mark.check
def test_of_too_many_who_are_behind_the_longest_is_disconnected() -> None:
    readers = Readers(patience=1000, most=2)
    first, second, third = Watched(), Watched(), Watched()
    for connection in (first, second, first, third):
        readers.add(connection)  # type: ignore[arg-type]
    assert (first.ended, second.ended, third.ended) == (True, False, False)
