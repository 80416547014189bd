"""`python -m exporter --inspect`: the contents of a `.pte`, as a table."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.table import Column, Table

from exporter.command_line.streams import outlive_reader
from exporter.command_line.tables import print_table


def run_inspect(path: Path) -> None:
    """Checks all bytes of a `.pte`, then prints its facts, quality and parts."""
    outlive_reader()
    from exporter.errors import ExportError
    from exporter.file.pte import read_report, verify

    try:
        ranges = verify(path, everything=True)
        report = read_report(path)
    except ExportError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)
    for title, facts in _sections(report):
        if not facts:
            continue
        listed = {name: value for name, value in facts.items() if _is_table(value)}
        others = {name: facts[name] for name in facts if name not in listed}
        if others:
            print_table(_facts(title, others))
        for name, rows in listed.items():
            print_table(_rows(f"{title}: {name}", rows))
    parts = Table("part", "pieces", "bytes", "checked", title="file: every checksum is correct")
    parts.title_justify = "left"
    for name in dict.fromkeys(item.name.split()[0] for item in ranges):
        pieces = [item for item in ranges if item.name.split()[0] == name]
        size = sum(item.size for item in pieces)
        when = "at load" if pieces[0].at_load else "on request"
        parts.add_row(name, f"{len(pieces)}", f"{size:,}", when)
    print_table(parts)


def _sections(report: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The report's parts; those of each of several methods with its name."""
    for title, facts in report.items():
        if title != "methods":
            yield title, facts
            continue
        for name, part in facts.items():
            yield from ((f"{name}, {own}", value) for own, value in part.items())


def _facts(title: str, facts: dict[str, Any]) -> Table:
    table = Table("", Column(overflow="fold"), title=title, title_justify="left", show_header=False)
    for name, value in facts.items():
        if value not in ([], {}):
            table.add_row(name, _shown(value))
    return table


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _rows(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(*rows[0], title=title, title_justify="left")
    for row in rows:
        table.add_row(*(_shown(value) for value in row.values()))
    return table


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(_shown(item) for item in value) or "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "none" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
