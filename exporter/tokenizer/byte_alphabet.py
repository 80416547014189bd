"""GPT-2's mapping of bytes to printable characters, used in vocabularies of byte-level BPE."""

from functools import lru_cache


@lru_cache(maxsize=1)
def byte_characters() -> list[str]:
    """Returns the character of each of the 256 bytes.

    A printable Latin-1 byte is its own character; the others are numbered from U+0100 on, as in the
    published vocabulary of Radford et al., "Language Models are Unsupervised Multitask Learners",
    2019.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (chr(0x100 + offset) for offset in range(256))
    return [chr(value) if value in printable else next(others) for value in range(256)]


@lru_cache(maxsize=1)
def _byte_values() -> dict[str, int]:
    return {character: value for value, character in enumerate(byte_characters())}


def token_to_bytes(token: str) -> bytes | None:
    """Returns the bytes that `token` represents; None if it is not written in this alphabet."""
    values = _byte_values()
    try:
        return bytes([values[character] for character in token])
    except KeyError:
        return None
