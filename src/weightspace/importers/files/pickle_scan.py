"""Reading the pickle of a torch checkpoint as data, before torch runs it.

A pickle is a program for a small stack machine. The scan steps through the program with
stand-ins for all objects and calls nothing. It accepts only what ``torch.save`` writes for
plain containers of tensors, and checks what a program declares (the bytes of its storages,
the extent of its tensors) against what the file holds. Only then is the file given to
``torch.load(weights_only=True)``, which has an allowlist of its own.
"""

from __future__ import annotations

import pickletools
from typing import BinaryIO

from weightspace.errors import FileError
from weightspace.importers.files.pickle_machine import STEPS, ForeignNameError, Machine
from weightspace.importers.files.pickle_names import foreign_names, refuse_names


def scan_pickle(file: BinaryIO, subject: object) -> dict[str, int]:
    """Step through the next pickle of a file without executing it.

    Args:
        file: positioned at the pickle; left behind its end.
        subject: how errors call the file.

    Returns:
        The number of bytes of each storage that it declares, by the storage's key.

    Raises:
        FileError: the pickle does anything but make containers of tensors, numbers and strings.
    """
    start = file.tell()
    machine = Machine(subject)
    for code, argument, _ in pickletools.genops(file):
        step = STEPS.get(code.name)
        if step is None:
            foreign = foreign_names(file, start)
            if foreign:
                raise refuse_names(foreign, subject)
            raise machine.refuse(f"the instruction {code.name}, of another pickle protocol than 2")
        try:
            step(machine, argument)
        except ForeignNameError as error:
            raise refuse_names(foreign_names(file, start) or [str(error)], subject) from None
        except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, FileError):
                raise
            raise FileError(
                subject,
                expected="a pickle written by torch.save",
                found=f"a damaged one (at {code.name}: {type(error).__name__})",
                hint="Copy or download the file again.",
            ) from error
    return machine.storages
