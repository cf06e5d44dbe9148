"""Safe reading of checkpoint files: tensors come out, nothing in a file is executed."""

from weightspace.importers.files.contents import Checkpoint
from weightspace.importers.files.reader import read_states

__all__ = ["Checkpoint", "read_states"]
