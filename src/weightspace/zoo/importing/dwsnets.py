"""Implicit networks of images as DWSNets, neural-graphs and NFN keep them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from torch import Tensor

from weightspace.errors import FileError
from weightspace.graph import Activation
from weightspace.importers import read_states
from weightspace.zoo.importing.blueprints import BareBlueprint
from weightspace.zoo.importing.found import FoundNetwork, Unit
from weightspace.zoo.importing.layout import Layout
from weightspace.zoo.importing.listing import Listing, list_files, suffix_of
from weightspace.zoo.importing.split_file import SplitTable, is_splits, read_splits
from weightspace.zoo.importing.tables import read_json_value

SINE = Activation.of("sine", w0=30.0)
OFFSET = Activation.of("offset", value=0.5)
LABELS = ("label", "coef")
"""What the state dicts hold beside the weights: the image's class, a sine's coefficients."""
_IMAGE = re.compile(r"(?:(.*)_)?(\d+)_(\d+)")
_DIGIT = re.compile(r"(.*)_(\d+)s")
_NUMBER = re.compile(r"net(\d+)")
_SPLITS = 4096


@dataclass(frozen=True)
class DwsNets(Layout):
    """Networks of images: a folder for each image, with a split file in JSON.

    ``mnist_png_training_5_123/checkpoints/model_final.pth`` is a network of image 123, a five;
    so is ``train_5s/net123.pth`` in the older form of NFN. Labels also stand in the state dict
    (``label``, or ``coef`` for sine waves) and in the split file. The networks are those of
    Navon et al. 2023: ``sin(30 (W x + b))``, and one half added to the output.
    """

    name: ClassVar[str] = "dwsnets"
    summary: ClassVar[str] = "implicit networks, a folder an image, splits in JSON"

    @classmethod
    def fits(cls, folder: Path, files: list[str]) -> bool:
        """There are folders named after images and classes, with networks in them."""
        return any(_of_name(file) for file in files if suffix_of(file) == ".pth")

    def listing(self, files: list[str]) -> Listing:
        """Every network; files of statistics are none."""
        return list_files(
            files, lambda f: suffix_of(f) in (".pth", ".pt") and "statistics" not in f.lower()
        )

    def read(self, unit: Unit) -> Iterator[FoundNetwork]:
        """Read one network and what its name tells."""
        checkpoint = read_states(self.folder / unit.file)
        beside = {k: v for k, v in checkpoint.tensors.items() if k in LABELS}
        state = {k: v for k, v in checkpoint.tensors.items() if k not in LABELS}
        row = {**_of_name(unit.file), **_labels(beside), **_labels(checkpoint.config)}
        loose = checkpoint.others.get("loose tensors", {})
        row |= _labels(loose)
        blueprint = BareBlueprint(state, self.activation or SINE, output=OFFSET)
        yield FoundNetwork("", state, blueprint, row, str(row.pop("source", "")))

    def splits(self, files: list[str]) -> SplitTable | None:
        """The split file, if there is exactly one."""
        found = [
            file
            for file in files
            if suffix_of(file) == ".json" and "split" in PurePosixPath(file).name.lower()
        ]
        found = [file for file in found if is_splits(read_json_value(self.folder / file))]
        if len(found) > 1:
            raise FileError(
                self.folder,
                expected="one split file",
                found=", ".join(found),
                hint="Choose one with --splits.",
            )
        return read_splits(self.folder / found[0]) if found else None


def _of_name(file: str) -> dict[str, Any]:
    """What a path tells of a network; empty if it is not that of an image."""
    path = PurePosixPath(file)
    if path.parent.name == "checkpoints":
        folder = path.parent.parent
        match = _IMAGE.fullmatch(folder.name)
        if match is not None:
            part = {"part": match[1].rpartition("_")[2]} if match[1] else {}
            return {"label": int(match[2]), "image": int(match[3]), **part,
                    "source": folder.as_posix()}  # fmt: skip
    digit, number = _DIGIT.fullmatch(path.parent.name), _NUMBER.fullmatch(path.stem)
    if digit is not None and number is not None:
        return {"label": int(digit[2]), "image": int(number[1]), "source": f"image {number[1]}"}
    return {}


def _labels(values: Mapping[str, Any]) -> dict[str, Any]:
    """The labels among values that stand beside the weights."""
    found = {}
    for name in LABELS:
        value = values.get(name)
        if isinstance(value, Tensor) and value.numel() <= _SPLITS:
            value = value.reshape(-1).tolist() if value.ndim else value.item()
        if value is not None:
            found[name] = value
    return found
