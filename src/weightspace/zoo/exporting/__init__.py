"""Zoos in the forms that other programs read."""

from weightspace.zoo.exporting.exporting import FORMATS, export_zoo
from weightspace.zoo.exporting.format import Format

__all__ = ["FORMATS", "Format", "export_zoo"]
