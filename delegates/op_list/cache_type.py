"""The type of keys and values in a cache, unless a session sets another."""

from collections.abc import Collection

from delegates.limits import StoredAs
from delegates.op_list.program import CacheType

_ITEM_BYTES = {CacheType.FLOAT16: 2, CacheType.FLOAT32: 4, CacheType.INT8: 1}


def cache_type(levels: Collection[int | None], with_int8: bool) -> CacheType:
    """
    Args:
        levels: levels of scales of each weight; None for floats.
        with_int8: whether the delegate computes with int8 keys and values. They add about a
            hundredth to what weights of 4 to 6 bits lose, those with two levels, and a tenth to
            what int8 loses.
    """
    if all(each is None for each in levels):
        return CacheType.FLOAT32
    return CacheType.INT8 if with_int8 and 2 in levels else CacheType.FLOAT16


def cached_bytes(types: Collection[StoredAs | None], with_int8: bool) -> int:
    """Bytes of a cached number beside weights of these types, None for floats."""
    levels = [None if type is None else type.levels for type in types]
    return _ITEM_BYTES[cache_type(levels, with_int8)]
