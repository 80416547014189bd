"""Prompts with pictures, as Runner.generate() takes them."""

import ctypes
import json
import os
import stat
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runtime.binding.c_arguments import encoded, read_tokens, text_of
from runtime.binding.library import ERROR_SIZE, Picture, Piece, TileCallback, library
from runtime.errors import RunnerError, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# A text, or {"image": ...}: a path, the bytes of a file, or pixels.
Part = str | Mapping[str, Any]
BLIND = (
    "the model does not see: leave the pictures out, or load one that was exported with what sees"
)


class Pictures:
    """Pictures as the library takes them; `array` is valid as long as this."""

    def __init__(self, images: Iterable[object]) -> None:
        """
        Raises:
            RunnerError: one is none, or cannot be read.
        """
        self._kept = [_read(image) for image in images]
        self.array = (Picture * len(self._kept))(*(picture for picture, _ in self._kept))

    def __len__(self) -> int:
        return len(self._kept)


class PicturePrompt:
    """A question of texts and pictures, in order.

    Attributes:
        text: the prompt, with the model's template around it and a place for each picture.
    """

    def __init__(self, parts: Sequence[Part], form: bytes) -> None:
        """
        Args:
            form: thimble_picture_form()'s answer.

        Raises:
            RunnerError: a part is something else, or cannot be read; or the model does not see.
        """
        if not parts:
            raise RunnerError("the prompt is an empty list: give a text, or pictures, or both")
        pictures = [_image(part) for part in parts if not isinstance(part, str)]
        if not form:
            raise RunnerError(BLIND if pictures else "the model does not see: give it one text")
        known = json.loads(form)
        texts = [part if isinstance(part, str) else known["place"] for part in parts]
        first = "before_text" if isinstance(parts[0], str) else "before"
        self.text = "".join((known[first], *texts, known["after"]))
        self._pictures = Pictures(pictures)

    def generate(self, handle: int, prompt: bytes, size: int, *answer: object) -> int:
        """Calls thimble_generate_with_pictures() as thimble_generate() is called."""
        function = library().thimble_generate_with_pictures
        pictures = self._pictures
        return int(function(handle, prompt, size, pictures.array, len(pictures), *answer))


def picture_tiles(settings: bytes, image: object) -> "list[NDArray[np.float32]]":
    """Returns what a model's method `vision_encoder` reads of a picture, in order: an input of it
    for each tile, the whole as the last.

    Args:
        settings: the blob `thimble.picture` of the model's file.
        image: a path, the bytes of a file, or pixels.

    Raises:
        RunnerError: the picture cannot be read, or the settings are damaged.
    """
    import numpy as np

    tiles: list[NDArray[np.float32]] = []

    def receive(numbers: Any, shape: Any, rank: int, _: object) -> int:
        tiles.append(np.ctypeslib.as_array(numbers, tuple(shape[:rank])).copy())
        return 1

    picture, _kept = _read(image)
    error, lib = ctypes.create_string_buffer(ERROR_SIZE), library()
    arguments = ctypes.byref(picture), TileCallback(receive), None
    if lib.thimble_picture_tiles(settings, len(settings), *arguments, error, ERROR_SIZE):
        raise RunnerError(text_of(error))
    return tiles


class PictureMessage:
    """A message of a chat: pictures, then a text.

    Attributes:
        text: that of the message.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        """
        Raises:
            RunnerError: a part is something else, or cannot be read; or a picture follows a text.
        """
        texts = [part for part in parts if isinstance(part, str)]
        images = [_image(part) for part in parts if not isinstance(part, str)]
        if any(isinstance(part, str) for part in parts[: len(images)]):
            raise RunnerError("a picture follows a text: in a chat, pass pictures before the text")
        self.text = "".join(texts)
        self._pictures = Pictures(images)

    def say(self, handle: int, message: bytes, size: int, *answer: object) -> int:
        """Calls thimble_chat_say_with_pictures() as thimble_chat_say() is called."""
        function = library().thimble_chat_say_with_pictures
        pictures = self._pictures
        return int(function(handle, message, size, pictures.array, len(pictures), *answer))


class SeenTokens(list[int]):
    """Tokens of a text with pictures: those below 0 are rows of pictures, which the model knows as
    long as this exists."""

    def __init__(self, handle: int, pictures: Pictures, pieces: "ctypes.Array[Piece]") -> None:
        """
        Args:
            pieces: the text, with a place for each picture.

        Raises:
            RunnerError: a picture is none, there are not as many places, or the model does not see.
        """
        error = ctypes.create_string_buffer(ERROR_SIZE)
        see, encode = library().thimble_see, library().thimble_encode_seen
        seen = see(handle, pictures.array, len(pictures), error, ERROR_SIZE)
        if not seen:
            raise RunnerError(text_of(error))
        weakref.finalize(self, library().thimble_seen_free, seen)

        def fill(ids: "ctypes.Array[ctypes.c_int32]") -> int:
            text = pieces, len(pieces), ids, len(ids), error, ERROR_SIZE
            count: int = encode(handle, seen, *text)
            if count < 0:
                raise RunnerError(text_of(error))
            return count

        super().__init__(read_tokens(fill, sum(piece.size for piece in pieces), more=1))


def _image(part: object) -> object:
    if not isinstance(part, Mapping) or set(part) != {"image"}:
        raise RunnerError(
            f"a part of the prompt is {shown(part)}, but must be a text or {{'image': ...}}"
        )
    return part["image"]


def _read(image: object) -> tuple[Picture, object]:
    """Returns a picture as the library takes it, and what owns its bytes."""
    if isinstance(image, str | os.PathLike):
        image = _file(image)
    if isinstance(image, bytes | bytearray | memoryview):
        data = bytes(image)
        return Picture(ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p), len(data), 0, 0), data
    pixels = _pixels(image)
    height, width = pixels.shape[:2]
    return Picture(pixels.ctypes.data, pixels.nbytes, width, height), pixels


def _file(path: "str | os.PathLike[str]") -> bytes:
    name, name_of_file = os.fspath(path), encoded(path)
    try:
        if stat.S_ISFIFO(os.stat(name_of_file).st_mode):  # to open it would wait for a writer
            raise RunnerError(f"the picture {name} is not a file: name one, or pass its bytes")
        with open(name_of_file, "rb") as file:
            return file.read()
    except OSError as error:
        raise RunnerError(
            f"cannot read the picture {name}: {error.strerror}: name a file"
        ) from None


def _pixels(image: object) -> "NDArray[np.uint8]":
    import numpy as np

    mode = getattr(image, "mode", None)  # of Pillow's pictures, whose numbers may be others
    if isinstance(mode, str) and mode not in ("RGB", "L"):
        raise RunnerError(
            f"the picture's mode is {mode}, but must be RGB or L: pass picture.convert('RGB')"
        )
    pixels = np.asarray(image)
    if pixels.dtype == np.uint8 and pixels.ndim == 2:
        pixels = np.repeat(pixels[..., None], 3, axis=2)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or not pixels.size:
        raise RunnerError(
            f"a picture is an array of {pixels.dtype} {pixels.shape}, but must be a path, the "
            "bytes of a file, or uint8 (height, width, 3) or (height, width)"
        )
    return np.ascontiguousarray(pixels)
