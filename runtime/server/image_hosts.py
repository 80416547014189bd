"""Pictures from the hosts that the person who started the server named, and from no others.

A client could otherwise have the server read what only the server can reach: other computers of its
network, or services of its own.
"""

import asyncio
import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from urllib.parse import urljoin, urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_MOST_REDIRECTS = 3
_MOST_S = 10.0
_PART = 1 << 16
_HTTPS = 443
_REDIRECTS = {301, 302, 303, 307, 308}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def is_public(address: Address) -> bool:
    """Whether an address, and the one that is written within it, belong to the public internet."""
    inner: Address | None = None
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if inner is not None:
        return is_public(inner)
    return address.is_global and not address.is_multicast


class UnreadableImageError(Exception):
    """Why there is no picture, as the end of a sentence that names it."""


class ImageHosts:
    """Reads pictures from hosts by https.

    Args:
        names: of the hosts, each perhaps with a port.
        resolve: returns the addresses of a host and a port.
        allowed: whether an address may be asked.
        context: how a host's certificate is checked; None: by the system's.
    """

    def __init__(
        self,
        names: Collection[str],
        resolve: Callable[[str, int], list[str]] | None = None,
        allowed: Callable[[Address], bool] = is_public,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._names = {name.lower() for name in names}
        self._resolve = resolve or _addresses
        self._allowed = allowed
        self._context = context

    async def fetch(self, url: str, most_bytes: int) -> bytes:
        """Returns what a URL has.

        Raises:
            UnreadableImageError: its host may not be asked, is at a private address, does not
                answer with at most so many bytes in time, or leads to one of these.
        """
        if not self._names:
            raise UnreadableImageError(
                "is not a data URL: the server reads pictures of no host, unless it is started "
                "with --allow-image-hosts"
            )
        try:
            async with asyncio.timeout(_MOST_S):
                return await asyncio.to_thread(self._follow, url, most_bytes)
        except TimeoutError:
            reason = f"took longer than {_MOST_S:g} seconds"
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = f"cannot be read ({str(error) or type(error).__name__})"
        raise UnreadableImageError(f"{reason}: pass a data URL")

    def _follow(self, url: str, most_bytes: int) -> bytes:
        for _ in range(_MOST_REDIRECTS + 1):
            host, port, path = self._target(url)
            answer = self._ask(host, port, path, most_bytes)
            if isinstance(answer, bytes):
                return answer
            url = urljoin(url, answer)
        raise ValueError(f"more than {_MOST_REDIRECTS} redirects")

    def _target(self, url: str) -> tuple[str, int, str]:
        """The host, the port and the path of a URL.

        Raises:
            ValueError: it is not https of a host that may be asked.
        """
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _HTTPS
        if parts.scheme != "https" or parts.username is not None or parts.password is not None:
            raise ValueError("its URL is not https://HOST/...")
        if f"{host}:{port}" not in self._names and not (port == _HTTPS and host in self._names):
            raise ValueError(f"the host {host} is not among those of --allow-image-hosts")
        path = parts.path or "/"
        return host, port, f"{path}?{parts.query}" if parts.query else path

    def _ask(self, host: str, port: int, path: str, most_bytes: int) -> bytes | str:
        """Returns what a host answers, or where it leads to."""
        context = self._context or ssl.create_default_context()
        plain = self._connect(host, port)
        end = threading.Timer(_MOST_S, _shut, [plain])  # an answer may come in drops
        end.start()
        try:
            connection = http.client.HTTPSConnection(host, port, timeout=_MOST_S)
            connection.sock = context.wrap_socket(plain, server_hostname=host)
            plain = connection.sock
            connection.request("GET", path, headers={"Accept": "image/*", "Connection": "close"})
            response = connection.getresponse()
            if response.status in _REDIRECTS:
                return response.getheader("Location") or ""
            if response.status != http.client.OK:
                raise ValueError(f"its host answers {response.status}")
            data = bytearray()
            while part := response.read(_PART):
                data += part
                if len(data) > most_bytes:
                    raise ValueError(f"it has more than {most_bytes} bytes")
            if response.length:
                raise ValueError("it is cut off")
            return bytes(data)
        finally:
            end.cancel()
            plain.close()

    def _connect(self, host: str, port: int) -> socket.socket:
        """A connection to an address of a host, none of which may be private."""
        addresses = self._resolve(host, port)
        for address in addresses:
            if not self._allowed(ipaddress.ip_address(address.partition("%")[0])):
                raise ValueError(f"the host {host} is at the private address {address}")
        if not addresses:
            raise ValueError(f"the host {host} has no address")
        return socket.create_connection((addresses[0], port), timeout=_MOST_S)


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _addresses(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]
