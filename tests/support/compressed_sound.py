"""FLAC and MP3 files, as small as tests need them."""

import struct
from typing import Any

from numpy.typing import NDArray

Samples = NDArray[Any]


def crc(data: bytes, width: int, polynomial: int) -> int:
    """FLAC's sums, bit by bit."""
    value = 0
    for byte in data:
        value ^= byte << (width - 8)
        for _ in range(8):
            value = (value << 1) ^ (polynomial if value >> (width - 1) else 0)
            value &= (1 << width) - 1
    return value


def flac(samples: Samples, rate: int, promised: int | None = None) -> bytes:
    """A file of int16 samples (frames, channels), each frame verbatim.

    Args:
        promised: frames, as the header says.
    """
    count, channels = samples.shape
    block = 1152
    total = count if promised is None else promised
    packed = rate << 44 | (channels - 1) << 41 | 15 << 36 | total
    info = struct.pack(">HH", block, block) + bytes(6) + packed.to_bytes(8, "big") + bytes(16)
    data = b"fLaC" + bytes([0x80]) + len(info).to_bytes(3, "big") + info
    for number, first in enumerate(range(0, count, block)):
        part = samples[first : first + block]
        head = bytes([0xFF, 0xF8, 0x70, (channels - 1) << 4 | 0x08]) + chr(number).encode()
        head += struct.pack(">H", len(part) - 1)
        frame = head + bytes([crc(head, 8, 0x07)])
        for channel in part.T:
            frame += bytes([0x02]) + channel.astype(">i2").tobytes()
        data += frame + struct.pack(">H", crc(frame, 16, 0x8005))
    return data


def silent_mp3(frames: int) -> bytes:
    """Frames of 1152 samples of nothing: MPEG 1, layer III, 128 kbit/s, 44.1 kHz, two channels."""
    return frames * (bytes([0xFF, 0xFB, 0x90, 0x64]) + bytes(413))
