"""Silences the known noise of dependencies as the command line does; imported before they are."""

from exporter.command_line.quiet import silence_known_noise

silence_known_noise()
