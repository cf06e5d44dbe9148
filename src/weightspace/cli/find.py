"""The commands ``weightspace embed``, ``search`` and ``lineage``: folders of checkpoints."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from weightspace.cli.output import printable, say, show_table, write_bytes, write_json, write_text
from weightspace.errors import counted

if TYPE_CHECKING:
    import numpy as np
    from rich.tree import Tree

    from weightspace.find import Entry, Found, Index, Lineage, Problem, Step

WIDE = 100_000

FolderName = Positional[Annotated[Path, arg(metavar="FOLDER")]]


def embed(
    folder: FolderName,
    *,
    out: Path = Path("vectors.parquet"),
    model: Path | None = None,
    activation: str | None = None,
    module: str | None = None,
    inputs: str | None = None,
    index: Path | None = None,
    json: Path | None = None,
) -> None:
    """Give every network of a folder a vector, from its weights alone.

    Networks of any architectures have vectors of one length, which do not change when neurons
    are reordered or rescaled. Files that cannot be read are named and skipped.

    Args:
        folder: checkpoints of any formats, in any subfolders.
        out: a .parquet table, or an .npy array with the names in a .names.json file beside it.
        model: a model.safetensors that `weightspace train` wrote, whose embedding is taken.
        activation: of all hidden layers, such as relu, where the files do not tell.
        module: package.module:name of a module that networks belong to.
        inputs: shapes of that module's inputs, such as "1,3,32,32".
        index: the file of the folder's index; by default a hidden file in the folder.
        json: also write names, channels and what was skipped to this file.
    """
    from weightspace.errors import DataError
    from weightspace.find import CHANNELS

    if out.suffix not in {".parquet", ".npy"}:
        raise DataError("--out", expected="a .parquet or .npy file", found=str(out))
    found = open_folder(folder, index, activation, module, inputs)
    entries, problems = list(found.entries), list(found.problems)
    vectors, channels = found.vectors, list(CHANNELS)
    if model is not None:
        entries, vectors, failed = _embedded(found, model)
        problems += failed
        channels = [f"{model.name} {place}" for place in range(vectors.shape[1])]
    _write_vectors(out, entries, vectors)
    say(f"{len(entries)} vectors of {vectors.shape[1]} numbers written to {out}")
    if json is not None:
        write_json(
            json,
            {
                "networks": [entry.name for entry in entries],
                "channels": channels,
                "skipped": _skipped(problems),
            },
        )


def search(
    query: Positional[Annotated[str, arg(metavar="QUERY")]],
    folder: FolderName,
    *,
    top: int = 10,
    activation: str | None = None,
    module: str | None = None,
    inputs: str | None = None,
    index: Path | None = None,
    json: Path | None = None,
) -> None:
    """Find the networks of a folder that are nearest to one, and say what they are to it.

    Copies are found as such whatever the order, signs and scales of their neurons; fine-tuned,
    pruned and rounded copies, and networks that share most layers, by their distance after
    alignment.

    Args:
        query: a checkpoint file, or FILE:NAME for a network of a file with several.
        folder: checkpoints of any formats, in any subfolders.
        top: how many to show.
        activation: of all hidden layers, such as relu, where the files do not tell.
        module: package.module:name of a module that networks belong to.
        inputs: shapes of that module's inputs, such as "1,3,32,32".
        index: the file of the folder's index; by default a hidden file in the folder.
        json: also write what was found to this file.
    """
    from weightspace.cli.folders import module_specs, progress, read_query
    from weightspace.errors import require_between
    from weightspace.find import search as find_nearest

    require_between("--top", top, 1, 100_000)
    asked = read_query(query, activation=activation, specs=module_specs(module, inputs))
    known = open_folder(folder, index, activation, module, inputs)
    found = find_nearest(asked, known, top=top, track=progress("comparing", "networks"))
    rows = [_found_row(item) for item in found]
    keys = ("name", "kind", "distance", "similarity", "note")
    shown = [[_short(row[key]) for key in keys] for row in rows]
    show_table(f"nearest to {query}", keys, shown)
    if json is not None:
        write_json(json, {"query": query, "found": rows, "skipped": _skipped(known.problems)})


def lineage(
    folder: FolderName,
    *,
    out: Path | None = None,
    activation: str | None = None,
    module: str | None = None,
    inputs: str | None = None,
    index: Path | None = None,
    json: Path | None = None,
) -> None:
    """Show which networks of a folder came from which, from their weights alone.

    Each network's parent is the nearest after alignment. Which of two was first is proved by
    rounding and zeros, else likely by weights that stand out, else a guess by the tree's shape:
    each step says which.

    Args:
        folder: checkpoints of any formats, in any subfolders.
        out: also write the tree as a page (.html) or as data (.json).
        activation: of all hidden layers, such as relu, where the files do not tell.
        module: package.module:name of a module that networks belong to.
        inputs: shapes of that module's inputs, such as "1,3,32,32".
        index: the file of the folder's index; by default a hidden file in the folder.
        json: also write the tree as data to this file.
    """
    from weightspace.cli.folders import progress
    from weightspace.errors import DataError
    from weightspace.find import trace_lineage
    from weightspace.report.lineage_page import lineage_page

    if out is not None and out.suffix not in {".html", ".json"}:
        raise DataError("--out", expected="a .html or .json file", found=str(out))
    known = open_folder(folder, index, activation, module, inputs)
    found = trace_lineage(known, track=progress("comparing", "pairs"))
    show_lineage(found)
    data = {**found.to_dict(), "skipped": _skipped(known.problems)}
    if out is not None and out.suffix == ".html":
        write_text(out, lineage_page(found, source=str(folder)))
    for path in (json, out if out is not None and out.suffix == ".json" else None):
        if path is not None:
            write_json(path, data)
    if out is not None:
        say(f"written to {out}")


def open_folder(
    folder: Path,
    index: Path | None,
    activation: str | None,
    module: str | None,
    inputs: str | None,
) -> Index:
    """See :func:`weightspace.cli.folders.open_index`."""
    from weightspace.cli.folders import open_index

    return open_index(folder, index=index, activation=activation, module=module, inputs=inputs)


def _embedded(index: Index, model: Path) -> tuple[list[Entry], np.ndarray, list[Problem]]:
    """The embeddings of a trained metanetwork, and the networks that it cannot read."""
    import numpy as np

    from weightspace.cli.folders import show_problems
    from weightspace.errors import DataError, FileError, WeightspaceError
    from weightspace.find import Problem
    from weightspace.find.embedding import embed_networks
    from weightspace.models import load_model
    from weightspace.models.predictor import Predictor

    saved = load_model(model).model
    if not isinstance(saved, Predictor):
        raise FileError(model, expected="a model that predicts", found="one that edits networks")
    by_name = {entry.name: entry for entry in index.entries}
    networks = (index.network(entry) for entry in index.entries)
    entries, rows, problems = [], [], []
    for network, vector in embed_networks(saved, networks):
        if isinstance(vector, WeightspaceError):
            problems.append(
                Problem(network.name, f"expected {vector.expected}, found {vector.found}")
            )
        else:
            entries.append(by_name[network.name])
            rows.append(vector.cpu().numpy())
    show_problems(problems)
    if not rows:
        raise DataError(model, expected="networks that the model can read", found="none")
    return entries, np.array(rows), problems


def _write_vectors(out: Path, entries: Sequence[Entry], vectors: np.ndarray) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    if out.suffix == ".npy":
        np.save(buffer, vectors, allow_pickle=False)
        write_json(out.with_suffix(".names.json"), [entry.name for entry in entries])
    else:
        table = {
            "name": [entry.name for entry in entries],
            "file": [entry.file for entry in entries],
            "key": [entry.key for entry in entries],
            "structure": [entry.structure for entry in entries],
            "values": [entry.values for entry in entries],
            "sha256": [entry.sha256 for entry in entries],
            "vector": pa.array(list(vectors.astype(np.float32)), type=pa.list_(pa.float32())),
        }
        pq.write_table(pa.table(table), buffer)
    write_bytes(out, buffer.getvalue())


def _found_row(item: Found) -> dict[str, Any]:
    kin = item.kinship
    return {
        "name": item.entry.name,
        "kind": kin.kind,
        "distance": kin.distance,
        "similarity": kin.similarity,
        "shared": kin.shared,
        "reordered": kin.moved,
        "descriptor_distance": item.gap,
        "note": kin.note,
    }


def _short(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _skipped(problems: Sequence[Problem]) -> list[dict[str, str]]:
    return [{"file": problem.file, "reason": problem.reason} for problem in problems]


def show_lineage(found: Lineage) -> None:
    """Print the trees of families, and how many networks stand alone."""
    from rich.console import Console
    from rich.tree import Tree

    console = Console(width=WIDE)  # lines are never cut, however deep the tree
    alone = []
    for root in found.roots:
        if found.size(root.entry) == 1:
            alone.append(root.entry.name)
            continue
        trees: list[Tree] = []
        for depth, step in found.walk(root):
            del trees[depth:]
            trees.append(trees[-1].add(_label(step)) if trees else Tree(_label(step)))
        console.print(trees[0])
    if alone:
        some = ", ".join(alone[:5]) + (", ..." if len(alone) > 5 else "")
        say(f"{counted(len(alone), 'network')} without kin: {some}")


def _label(step: Step) -> Any:
    """A network's name, and what it is to its parent; names are never read as markup."""
    from rich.text import Text

    label = Text(printable(step.entry.name))
    if step.kinship is not None:
        label.append(f"  {step.kinship.kind} {step.kinship.distance:.4f}", "cyan")
        label.append(f"  {step.reason}", "dim")
    return label
