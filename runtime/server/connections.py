"""Connections to clients, which end if these stall."""

import asyncio
import socket
import struct
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_UNSENT = 1 << 17  # bytes that the system keeps of a connection, beside those on their way
_MOST_BEHIND = 256


class Readers:
    """The connections with bytes that their readers have not taken.

    Args:
        patience: seconds in which a reader must take some of them; and in which a client must send
            the head of a request that it has begun, or of its first.
        most: how many may be behind; of more, the one that has been for longest is closed.
    """

    def __init__(self, patience: float, most: int = _MOST_BEHIND) -> None:
        self.patience = patience
        self._most = most
        self._behind: dict[Connection, None] = {}

    def add(self, connection: "Connection") -> None:
        self._behind[connection] = None
        if len(self._behind) > self._most:
            next(iter(self._behind)).abort()

    def remove(self, connection: "Connection") -> None:
        self._behind.pop(connection, None)


class Connection(H11Protocol):
    """A connection that is closed if its client takes or sends nothing for too long.

    A send waits until the client has taken what was sent before. Nothing else ends that wait: a
    client may stop reading and keep its end open.
    """

    transport: asyncio.Transport

    def __init__(self, *args: Any, readers: Readers, **named: Any) -> None:
        super().__init__(*args, **named)
        self._readers = readers
        self._left = 0
        self._timer: asyncio.TimerHandle | None = None
        self._head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # paused means: there are bytes not taken
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # or the system takes megabytes
            accepted = transport.get_extra_info("socket")
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)
        self._head = self.loop.call_later(self._readers.patience, self.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.get_protocol() is not self:
            return  # it is a WebSocket now
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget_head()
        elif self._head is None:
            self._head = self.loop.call_later(self._readers.patience, self.abort)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        super().handle_websocket_upgrade(event)
        self._forget_head()

    def send_400_response(self, msg: str) -> None:
        """Answers what is not HTTP, if its request is not being answered; else closes."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # nobody is left who could read its answer
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()
        self._readers.add(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget()
        self._forget_head()

    def check(self) -> None:
        """Closes the connection if its reader has taken nothing since the last check."""
        if self.transport.get_write_buffer_size() < self._left:
            self._watch()
        else:
            self.abort()

    def abort(self) -> None:
        """Closes the connection at once, with what was not sent."""
        self._forget()
        self._forget_head()
        accepted = self.transport.get_extra_info("socket")
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _watch(self) -> None:
        self._left = self.transport.get_write_buffer_size()
        self._timer = self.loop.call_later(self._readers.patience, self.check)

    def _forget(self) -> None:
        self._readers.remove(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _forget_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None
