"""Weights as tables of numbers."""

from __future__ import annotations

import csv
import io
import itertools
from pathlib import Path

from weightspace.errors import FileError
from weightspace.zoo.exporting.files import as_array
from weightspace.zoo.exporting.format import Format, blocks
from weightspace.zoo.exporting.labels import labels_csv
from weightspace.zoo.shards import spec_tensors
from weightspace.zoo.store import Zoo
from weightspace.zoo.store_files import write_file

WIDEST = 200_000


class Csv(Format):
    """``metadata.csv``, and the weights as tables, a row a network.

    A table of weights, ``weights-spec0-000000.csv``, holds networks of one spec; its columns
    are called by tensor and index, such as ``seq.0.weight[1,0]``, after ``network``.
    """

    name = "csv"
    summary = "metadata.csv, and tables of weights, a row a network"

    def steps(self, zoo: Zoo) -> int:
        """Blocks of networks, and the metadata."""
        return len(blocks(zoo)) + 1

    def write(self, zoo: Zoo, folder: Path, step: int) -> int:
        """Write a block of networks; the metadata last."""
        found = blocks(zoo)
        if step == len(found):
            write_file(folder / "metadata.csv", labels_csv(zoo))
            return 0
        indices = zoo.spec_indices(found[step])
        for spec, places, states in zoo.groups(found[step]):
            index = int(indices[int(places[0])])
            if spec.parameter_count > WIDEST:
                raise FileError(
                    f"{zoo.path}, spec {index}",
                    expected=f"at most {WIDEST:,} weights a network for a table",
                    found=f"{spec.parameter_count:,}",
                    hint="Export as safetensors or npz.",
                )
            buffer = io.StringIO(newline="")
            writer = csv.writer(buffer, lineterminator="\n")
            tensors = spec_tensors(spec)
            writer.writerow(["network", *(c for t in tensors for c in _cells(t.name, t.shape))])
            flat = [
                as_array(states[t.name], t.name).reshape(len(places), -1).tolist() for t in tensors
            ]
            for row, place in enumerate(places.tolist()):
                values = itertools.chain.from_iterable(column[row] for column in flat)
                writer.writerow([found[step][place], *values])
            name = f"weights-spec{index}-{step:06d}.csv"
            write_file(folder / name, buffer.getvalue().encode())
        return len(found[step])


def _cells(name: str, shape: tuple[int, ...]) -> list[str]:
    """The names of a tensor's values.

    >>> _cells("b", (2,)), _cells("n", ())
    (['b[0]', 'b[1]'], ['n'])
    """
    if not shape:
        return [name]
    places = itertools.product(*(range(size) for size in shape))
    return [f"{name}[{','.join(map(str, place))}]" for place in places]
