"""The picture of a traced network, one kind of operation a file."""

from weightspace.importers.drawing.drawing import draw

__all__ = ["draw"]
