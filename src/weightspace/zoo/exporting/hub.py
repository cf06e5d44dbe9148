"""A folder that can be uploaded to the Hugging Face hub as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from weightspace.zoo.deriving import share_file, table_bytes
from weightspace.zoo.exporting.format import Format
from weightspace.zoo.store import Zoo
from weightspace.zoo.store_files import write_file
from weightspace.zoo.store_manifest import MANIFEST, Manifest
from weightspace.zoo.store_rows import SPLIT

if TYPE_CHECKING:
    import pyarrow as pa

DATA = "data"
SIZES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M"}
SHOWN = 3


class Hub(Format):
    """The zoo itself with a dataset card, and its rows as parquet files by split.

    ``datasets.load_dataset(DIR)`` reads the rows; their columns ``shard`` and ``shard_row``
    say where the weights are: in that safetensors file, at that place of every stacked
    tensor. The folder stays a zoo: ``Zoo.open(DIR)`` reads it.
    """

    name = "hf"
    summary = "a dataset for the Hugging Face hub: parquet, safetensors and a card"

    def steps(self, zoo: Zoo) -> int:
        """Every shard, then the tables, the card and the manifest."""
        return len(Manifest.read(zoo.path).shards) + 1

    def write(self, zoo: Zoo, folder: Path, step: int) -> int:
        """Take a shard; everything else last."""
        manifest = Manifest.read(zoo.path)
        if step < len(manifest.shards):
            shard = manifest.shards[step]
            shard.file.require_size(zoo.path)
            share_file(zoo.path / shard.file.name, folder / shard.file.name)
            return shard.networks
        (folder / DATA).mkdir(exist_ok=True)
        files = {}
        table = _with_places(zoo, manifest)
        for split, networks in _splits(zoo, manifest).items():
            name = f"{DATA}/{split}-00000-of-00001.parquet"
            rows = table.take(networks)
            write_file(folder / name, table_bytes(rows))
            files[split] = name
        write_file(folder / "README.md", card(zoo, files).encode())
        share_file(zoo.path / manifest.metadata.name, folder / manifest.metadata.name)
        share_file(zoo.path / MANIFEST, folder / MANIFEST)
        return 0


def card(zoo: Zoo, files: dict[str, str]) -> str:
    """The dataset card: what the hub reads in front, what people read below."""
    name = zoo.path.resolve().name
    data = "".join(
        f"      - split: {split}\n        path: {json.dumps(path)}\n"
        for split, path in files.items()
    )
    size = next((text for limit, text in SIZES.items() if len(zoo) < limit), "n>1M")
    columns = "\n".join(f"| `{f.name}` | {f.type} |" for f in zoo.metadata.schema)
    plural = "s" * (len(zoo.specs) != 1)
    return f"""---
pretty_name: {json.dumps(name)}
tags:
  - model-zoo
  - weight-space-learning
  - weightspace
size_categories:
  - {size}
configs:
  - config_name: default
    data_files:
{data}---

# {name}

{len(zoo):,} trained networks of {len(zoo.specs):,} architecture{plural}.

Each row is a network: its labels, and where its weights are. `shard` is a safetensors file of
this folder in which networks of one architecture are stacked, `shard_row` the place of the
network in every tensor of it:

```python
from datasets import load_dataset
from safetensors import safe_open

row = load_dataset("path/of/this/dataset", split="{next(iter(files))}")[0]
with safe_open(row["shard"], framework="pt") as file:
    state = {{name: file.get_slice(name)[row["shard_row"]] for name in file.keys()}}
```

With weightspace the folder is a zoo: `weightspace.zoo.Zoo.open(folder)`.

| column | type |
| --- | --- |
{columns}
| `shard` | string |
| `shard_row` | int64 |

## Architectures

{_architectures(zoo)}
"""


def _architectures(zoo: Zoo) -> str:
    """The tables of the first specs."""
    shown = "\n\n".join(f"```\n{spec}\n```" for spec in zoo.specs[:SHOWN])
    rest = len(zoo.specs) - SHOWN
    return shown if rest <= 0 else f"{shown}\n\n... and {rest:,} more in `zoo.json`."


def _splits(zoo: Zoo, manifest: Manifest) -> dict[str, npt.NDArray[np.int64]]:
    """The networks of each split; those in none are called ``rest``, or ``all`` alone."""
    found = {name: zoo.split(name) for name in manifest.splits}
    taken = np.concatenate([np.zeros(0, np.int64), *found.values()])
    rest = np.setdiff1d(np.arange(len(zoo)), taken)
    named = {_safe(name): networks for name, networks in found.items() if len(networks)}
    if len(rest):
        named["rest" if named else "all"] = rest
    return named


def _safe(name: str) -> str:
    """A split's name as the hub allows it."""
    renamed = {"val": "validation", "valid": "validation"}.get(name, name)
    return "".join(c if c.isalnum() or c in "._" else "_" for c in renamed) or SPLIT


def _with_places(zoo: Zoo, manifest: Manifest) -> pa.Table:
    """The rows, and where each network's weights are."""
    import pyarrow as pa  # noqa: PLC0415 (only writing needs it)

    names = [s.file.name for s in manifest.shards for _ in range(s.networks)]
    rows = [row for s in manifest.shards for row in range(s.networks)]
    table = zoo.metadata
    for name, values in (("shard", names), ("shard_row", rows)):
        if name in table.column_names:
            table = table.drop_columns([name])
        table = table.append_column(name, pa.array(values))
    return table
