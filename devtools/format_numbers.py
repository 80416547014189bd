"""A number of things in words."""


def counted(count: int, noun: str) -> str:
    """Such as 1 call, 1,200 calls."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
