"""`python -m exporter --list-delegates`: what each delegate supports and requires."""

import click
from rich.table import Table

from exporter.command_line.quiet import silence_known_noise
from exporter.command_line.streams import outlive_reader
from exporter.command_line.tables import print_table


def run_list_delegates() -> None:
    """Prints a table of all delegates, including other packages'; shows why one is unusable."""
    outlive_reader()
    silence_known_noise()
    from delegates import DelegateError, delegate_names, get_limits

    table = Table("delegate", "runs on", "weight bits", "lengths", "lowers here", "file run here")
    notes = []
    for name in delegate_names():
        try:
            limits = get_limits(name)
        except DelegateError as error:
            table.add_row(name, "", "", "", "no", "no")
            notes.append(str(error))
            continue
        missing = limits.missing()
        if missing is not None:
            notes.append(missing)
        table.add_row(
            name,
            limits.runs_on,
            ", ".join(str(bits) for bits in limits.weight_bits),
            "any" if limits.dynamic else "one",
            "yes" if missing is None else "no",
            "yes" if missing is None and limits.checks() else "no",
        )
    print_table(table)
    for note in notes:
        click.echo(note)
