"""Measured figures as text."""

_MOST_DIGITS = 9
_LONGEST = 1e9  # from here on as 1.234e+12


def with_error(value: float, error: float, digits: int) -> str:
    """Such as "0.0828 ± 0.0018"; with more digits where the error would else be shown as zero."""
    if max(value, error) >= _LONGEST:
        return f"{value:.3e} ± {error:.3e}"
    while 0 < error < 0.5 * 10**-digits and digits < _MOST_DIGITS:
        digits += 1
    return f"{value:.{digits}f} ± {error:.{digits}f}"
