"""The adapter that a model runs with: one, although export takes several."""

import click


def one_adapter(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str | None:
    """The callback of a repeatable option: its value, or None if there is none.

    Raises:
        click.UsageError: there are several.
    """
    if len(values) > 1:
        name = param.opts[0]
        raise click.UsageError(
            f"{name} is given as {values[0]} and as {values[1]}, but a model runs with one; give "
            "it once."
        )
    return values[0] if values else None
