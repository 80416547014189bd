"""Ministral: Mistral whose config lists the layers with a window."""

from exporter.models.families import mistral
from exporter.models.family import Family

FAMILY = Family("ministral", mistral.spec)
