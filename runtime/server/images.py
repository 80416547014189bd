"""The pictures of a conversation: bytes, from data URLs or from hosts that may be asked."""

import base64
import binascii
from collections.abc import Iterator

from runtime.chat_format.conversation import Prompt
from runtime.server.errors import HttpError
from runtime.server.image_hosts import ImageHosts, UnreadableImageError
from runtime.server.model_process import Pictured, Pieces
from runtime.server.requests import ChatRequest

_MOST = 64  # pictures of a request


def data_url(base64_text: str | None) -> str:
    return f"data:image/*;base64,{base64_text or ''}"


async def images_of(
    chat: ChatRequest, hosts: ImageHosts, most_bytes: int, is_own_form: bool
) -> list[bytes]:
    """Returns the files of a conversation's pictures, in order.

    Args:
        is_own_form: the client wrote chat completions, so that an error may name their fields.

    Raises:
        HttpError: one is neither a data URL nor of a host that may be asked, or they are too large.
    """
    found: list[bytes] = []
    left = most_bytes
    for number, (field, url) in enumerate(_urls(chat), start=1):
        place, param = (field, field) if is_own_form else (f"picture {number}", None)
        if len(found) == _MOST:
            raise HttpError(400, f"the request has more than {_MOST} pictures", param)
        try:
            image = await hosts.fetch(url, left) if url.startswith("https://") else _decoded(url)
        except UnreadableImageError as error:
            raise HttpError(400, f"{place} {error}", param) from None
        left -= len(image)
        if left < 0:
            raise HttpError(413, f"the pictures have more than {most_bytes} bytes", param)
        found.append(image)
    return found


def with_images(prompt: Prompt, images: list[bytes]) -> Pieces:
    """A conversation as the model's process takes it."""
    placed = [images[number] for number in prompt.pictures]
    return Pictured(prompt.pieces, placed) if images else prompt.pieces


def _urls(chat: ChatRequest) -> Iterator[tuple[str, str]]:
    """Iterates over the URLs of pictures, each with its place in the request."""
    for index, message in enumerate(chat.messages):
        for number, part in enumerate(message.content if isinstance(message.content, list) else ()):
            if part.image_url is not None:
                yield f"messages.{index}.content.{number}", part.image_url.url


def _decoded(url: str) -> bytes:
    if not url.startswith("data:"):
        raise UnreadableImageError("is not a data URL, such as data:image/png;base64,")
    head, comma, text = url.partition(",")
    if not comma or not head.endswith(";base64"):
        raise UnreadableImageError("is a data URL without base64")
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise UnreadableImageError("is not base64") from None
