"""The commands ``weightspace zoo merge``, ``split`` and ``export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from weightspace.cli.output import say, write_json
from weightspace.errors import DataError, counted


def merge(
    zoos: Positional[Annotated[tuple[Path, ...], arg(metavar="ZOO")]],
    *,
    out: Path,
    json: Path | None = None,
) -> None:
    """Put several zoos together; they are not changed.

    Args:
        zoos: the folders of the zoos.
        out: the folder of the new zoo; shards are links to the old ones where possible.
        json: also write what was made as JSON to this file.
    """
    from weightspace.zoo import Zoo
    from weightspace.zoo.merging import merge_zoos

    zoo, notes = merge_zoos([Zoo.open(path) for path in zoos], out)
    say("\n".join([f"{zoo} in {out}", *notes]))
    _write(json, zoo, out, notes=notes)


def split(
    zoo: Positional[Annotated[Path, arg(metavar="ZOO")]],
    *,
    out: Path,
    shares: tuple[str, ...] = ("train=.8", "val=.1", "test=.1"),
    by: str | None = None,
    balance: str | None = None,
    seed: int = 0,
    json: Path | None = None,
) -> None:
    """Divide a zoo into splits, so that networks of one source are in one split.

    The zoo is not changed: the division is a new zoo with the same shards.

    Args:
        zoo: the zoo's folder.
        out: the folder of the new zoo.
        shares: each split's share of the networks.
        by: the column of sources; 'source' if there is one, else every network for itself.
        balance: a column whose values are to be equally frequent in every split.
        seed: of the shuffling.
        json: also write what was made as JSON to this file.
    """
    from weightspace.zoo import Zoo
    from weightspace.zoo.splitting import split_zoo

    divided = split_zoo(
        Zoo.open(zoo), out, shares=read_shares(shares), by=by, balance=balance, seed=seed
    )
    say(f"{divided} in {out}")
    _write(json, divided, out)


def export(
    zoo: Positional[Annotated[Path, arg(metavar="ZOO")]],
    folder: Positional[Annotated[Path, arg(metavar="DIR")]],
    *,
    format: Literal["safetensors", "npz", "torch", "csv", "hf"] = "safetensors",
) -> None:
    """Write a zoo in a form that other programs read.

    Args:
        zoo: the zoo's folder.
        folder: where to write; empty or not there.
        format: a file a network (safetensors, npz, torch) with labels.csv, tables of numbers
            (csv), or a dataset for the Hugging Face hub (hf).
    """
    from weightspace.zoo import Zoo
    from weightspace.zoo.exporting import export_zoo

    opened = Zoo.open(zoo)
    export_zoo(opened, folder, format=format)
    say(f"{counted(len(opened), 'network')} as {format} in {folder}")


def read_shares(texts: tuple[str, ...]) -> dict[str, float]:
    """Read shares such as ``train=.8``.

    Raises:
        DataError: they cannot be read, or a split is named twice.

    >>> read_shares(("train=.75", "test=.25"))
    {'train': 0.75, 'test': 0.25}
    """
    shares: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            share = float(number)
        except ValueError:
            share = -1.0
        if not name or name in shares or not 0 <= share <= 1:
            raise DataError(
                "--shares", expected="splits with shares, such as train=.8 test=.2", found=text
            )
        shares[name] = share
    return shares


def _write(json: Path | None, zoo: object, out: Path, **more: object) -> None:
    from weightspace.zoo import Zoo

    assert isinstance(zoo, Zoo)
    if json is not None:
        counts = {"networks": len(zoo), "specs": len(zoo.specs), "splits": dict(zoo.splits)}
        write_json(json, {"path": str(out), **counts, **more})
