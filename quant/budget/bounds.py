"""Which budgets are valid for any model. Importing this module is fast."""

from quant.errors import QuantError
from quant.scheme import FOUR_BITS, Scheme

MOST_BITS = 9  # 8, and a float32 scale for each 32 weights


def check_budget(bits: float | None, size: int | None) -> None:
    """Checks --bits and --max-size.

    Raises:
        QuantError: both are given, or one is out of its range.
    """
    if bits is not None and size is not None:
        raise both_or_neither()
    if bits is not None and not 0 < bits <= MOST_BITS:
        raise QuantError(
            f"--bits {bits:g} is not a valid budget; give a number above 0 and at most "
            f"{MOST_BITS}, such as 6."
        )
    if size is not None and size < 1:
        raise QuantError(f"--max-size {size} is not a valid budget; give a size above 0.")


def require_spreadable(scheme: Scheme) -> None:
    """Raises QuantError if a budget cannot spread the scheme's bits."""
    if scheme.name not in FOUR_BITS:
        raise QuantError(
            f"a budget spreads 2 to 8 bits, and {scheme.name} stores {scheme.bits}; take one of "
            f"{', '.join(FOUR_BITS)}."
        )


def both_or_neither() -> QuantError:
    """Returns the error of a budget in two units, or in none."""
    return QuantError("a budget is in bits or in bytes; give one of --bits and --max-size.")
