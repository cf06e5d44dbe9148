"""What a survey has found so far, on disk beside the zoo."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weightspace.errors import FileError, reason_of
from weightspace.zoo.importing.survey import Survey
from weightspace.zoo.store_files import as_json, read_json, write_file


class Journal:
    """The results of finished blocks, on disk.

    Args:
        folder: where; made if it is not there.
        identity: what the results depend on; those of anything else are deleted.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self.folder = folder
        identity = as_json("survey", identity)
        header = folder / "survey.json"
        try:
            same = read_json(header) == identity
        except FileError:
            same = False
        if not same:
            self.delete()
            try:
                folder.mkdir(parents=True)
            except OSError as error:
                raise FileError(
                    folder, expected="a folder that can be made", found=reason_of(error)
                ) from error
            write_file(header, json.dumps(identity).encode())

    def has(self, number: int) -> bool:
        """Whether a block is finished."""
        return self._path(number).is_file()

    def write(self, number: int, block: Mapping[str, Any]) -> None:
        """Note a finished block."""
        write_file(self._path(number), json.dumps(block).encode())

    def read(self, count: int) -> Survey:
        """Join all blocks."""
        survey = Survey()
        for number in range(count):
            survey.add(read_json(self._path(number)))
        return survey

    def delete(self) -> None:
        """Remove the journal."""
        self.remove(self.folder)

    @staticmethod
    def remove(folder: Path) -> None:
        """Remove a journal that may be left from before."""
        shutil.rmtree(folder, ignore_errors=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"block-{number:06d}.json"
