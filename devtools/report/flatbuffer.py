"""Reads tables of a flatbuffer by the numbers that their fields have in the schema."""

import struct


class Damaged(ValueError):
    """An offset that points out of the buffer."""


_READ_AGAIN = 16  # how often all of a buffer may be read, as parts of it may be shared


class Table:
    """A table, by its position in the buffer. An absent field is 0, empty or None.

    Args:
        left: one number: how many items of vectors may still be read.
    """

    def __init__(self, data: bytes, at: int, left: list[int] | None = None) -> None:
        self._data, self._at = data, at
        self._left = [_READ_AGAIN * len(data)] if left is None else left

    @classmethod
    def root(cls, data: bytes) -> "Table":
        return cls(data, 0)._follow(0)

    def number(self, field: int, form: str = "<I") -> int:
        """
        Args:
            form: as in the package struct.
        """
        at = self._place(field)
        return self._read(form, at) if at else 0

    def text(self, field: int) -> str:
        return self.bytes(field).decode()

    def bytes(self, field: int) -> bytes:
        start, count = self._vector(field)
        if start + count > len(self._data):
            raise Damaged
        return self._data[start : start + count]

    def table(self, field: int) -> "Table | None":
        at = self._place(field)
        return self._follow(at) if at else None

    def tables(self, field: int) -> list["Table"]:
        start, count = self._vector(field)
        return [self._follow(start + 4 * index) for index in range(count)]

    def numbers(self, field: int, form: str = "<I") -> tuple[int, ...]:
        start, count = self._vector(field)
        width = struct.calcsize(form)
        return tuple(self._read(form, start + width * index) for index in range(count))

    def _follow(self, at: int) -> "Table":
        return Table(self._data, at + self._read("<I", at), self._left)

    def _vector(self, field: int) -> tuple[int, int]:
        """Where the items start, and how many there are."""
        at = self._place(field)
        if not at:
            return 0, 0
        start = at + self._read("<I", at)
        count = self._read("<I", start)
        self._left[0] -= count
        if self._left[0] < 0:  # small files would otherwise ask for vectors without end
            raise Damaged
        return start + 4, count

    def _place(self, field: int) -> int:
        """Position of a field; 0 where it is absent."""
        vtable = self._at - self._read("<i", self._at)
        slot = 4 + 2 * field
        if slot >= self._read("<H", vtable):
            return 0
        offset = self._read("<H", vtable + slot)
        return self._at + offset if offset else 0

    def _read(self, form: str, at: int) -> int:
        if not 0 <= at <= len(self._data) - struct.calcsize(form):
            raise Damaged
        value: int = struct.unpack_from(form, self._data, at)[0]
        return value
