"""Pictures for tests."""

import io

import numpy as np
from PIL import Image


def picture(width: int, height: int) -> Image.Image:
    random = np.random.default_rng(width * 10007 + height)
    values = random.integers(0, 256, (height // 7 + 1, width // 7 + 1, 3)).astype(np.uint8)
    return Image.fromarray(values).resize((width, height), Image.Resampling.BICUBIC)


def png(image: Image.Image) -> bytes:
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()
