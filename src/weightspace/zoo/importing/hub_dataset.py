"""Zoos that were exported as datasets of the Hugging Face hub, taken in again."""

from __future__ import annotations

from pathlib import Path

from weightspace.errors import FileError
from weightspace.zoo.deriving import Borrowed, Content, derive
from weightspace.zoo.importing.report import ImportReport
from weightspace.zoo.splitting import origin
from weightspace.zoo.store import Zoo
from weightspace.zoo.store_manifest import MANIFEST, Manifest
from weightspace.zoo.store_rows import SPLIT

LAYOUT = "hf"


def is_hub_dataset(folder: Path) -> bool:
    """Whether a folder is a zoo with the card and the tables of a dataset of the hub.

    >>> is_hub_dataset(Path("nowhere"))
    False
    """
    card = (folder / MANIFEST).is_file() and (folder / "README.md").is_file()
    return card and any((folder / "data").glob("*.parquet"))


def take_dataset(folder: Path, out: Path) -> tuple[Zoo, ImportReport]:
    """Make a zoo of a dataset that ``weightspace zoo export --format hf`` wrote.

    The weights are links to the dataset's files where the file system has them, else copies.

    Args:
        folder: the dataset, such as a snapshot in the hub's cache; it is not changed.
        out: the zoo's folder.

    Raises:
        FileError: a file of the dataset is missing or damaged, or ``out`` holds something else.
    """
    zoo = Zoo.open(folder)
    manifest = Manifest.read(folder)
    missing = [s.file.name for s in manifest.shards if not (folder / s.file.name).is_file()]
    if missing:
        raise FileError(
            folder / missing[0],
            expected="the weights of the dataset",
            found="no such file",
            hint="Fetch the whole dataset, not its tables alone.",
        )
    table = zoo.metadata
    if manifest.splits and manifest.split_column != SPLIT:
        names = [SPLIT if n == manifest.split_column else n for n in table.column_names]
        table = table.rename_columns(names)
    shards = [Borrowed(folder.resolve(), shard, shard.spec) for shard in manifest.shards]
    report = ImportReport(
        folder.name, LAYOUT, len(zoo), len(manifest.specs), splits=dict(zoo.splits)
    )
    made = derive(
        out,
        Content(manifest.specs, shards, table),
        recipe={"name": "import", "layout": LAYOUT, "zoo": origin(zoo), "recipe": zoo.recipe},
        provenance={"import": report.to_dict(), "zoo": zoo.provenance},
    )
    return made, report
