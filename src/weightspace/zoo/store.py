"""The zoo store: sets of networks on disk, read a batch at a time."""

from __future__ import annotations

import functools
import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from weightspace.errors import DataError, FileError, counted, reason_of, similar_name
from weightspace.graph import GraphSpec, NeuralGraph
from weightspace.graph.display import html_table
from weightspace.importers.files.hub import local_path
from weightspace.zoo.frames import table_frame
from weightspace.zoo.shards import Run, ShardLayout, read_layout, read_rows, spec_tensors
from weightspace.zoo.store_manifest import MANIFEST, Manifest, read_spec

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Indices = Sequence[int] | npt.NDArray[np.integer[Any]] | Tensor | range | slice
Array = npt.NDArray[np.int64]

_SHOWN = 12  # columns in notebooks
_LAYOUTS = 4096  # parsed shard headers to keep: a few kilobytes each


class Zoo:
    """A set of networks on disk, of one or many specs, with labels.

    Opening reads ``zoo.json`` alone, whatever the number of networks; a batch reads its
    own bytes alone. A zoo can be sent to other processes: they open it anew.

    Args:
        path: the folder.
        manifest: the contents of its ``zoo.json``.

    >>> import tempfile
    >>> from weightspace.graph import chain_spec
    >>> from weightspace.zoo import ZooWriter
    >>> spec = chain_spec([2, 1])
    >>> states = {"0.weight": torch.zeros(4, 1, 2), "0.bias": torch.arange(4.0)[:, None]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = ZooWriter(folder, specs=[spec], recipe={"name": "example"})
    ...     writer.write_part(0, states, [{"label": i} for i in range(4)])
    ...     zoo = writer.finish(splits={"train": [0, 1, 2], "test": [3]})
    ...     print(zoo, zoo.states([3, 1])["0.bias"].flatten(), zoo.column("label"))
    Zoo(4 networks, 1 spec, splits train 3, test 1) tensor([3., 1.]) [0 1 2 3]
    """

    def __init__(self, path: Path | str, manifest: Manifest) -> None:
        self.path = Path(path)
        self.recipe = manifest.recipe
        self.provenance = manifest.provenance
        self.splits = manifest.splits
        self._manifest = manifest
        self._specs: dict[int, GraphSpec] = {}
        self._columns: dict[str, npt.NDArray[Any]] = {}
        counts = [shard.networks for shard in manifest.shards]
        self._starts: Array = np.cumsum([0, *counts], dtype=np.int64)
        self._shard_specs: Array = np.array([s.spec for s in manifest.shards], dtype=np.int64)
        self._layout: Callable[[int], ShardLayout] = functools.lru_cache(_LAYOUTS)(
            self._read_layout
        )

    @classmethod
    def open(cls, path: Path | str) -> Zoo:
        """Open a zoo, of a folder or the Hugging Face hub (``hf://datasets/org/name``).

        Raises:
            FileError: the folder is not a zoo, or one that is not finished.
        """
        folder = local_path(path)
        return cls(folder, Manifest.read(folder))

    def __reduce__(self) -> tuple[object, ...]:
        return Zoo.open, (self.path,)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __repr__(self) -> str:
        count = len(self._manifest.specs)
        parts = [counted(len(self), "network"), counted(count, "spec")]
        if self.splits:
            parts.append("splits " + ", ".join(f"{k} {n}" for k, n in self.splits.items()))
        return f"Zoo({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """What notebooks show: the first rows of the table."""
        names = self.metadata.column_names[:_SHOWN]
        rows = [[row[name] for name in names] for row in self.metadata.slice(0, 6).to_pylist()]
        title = f"{self!r} in {self.path}"
        if len(self) > len(rows):
            title += f"; the first {len(rows)} rows"
        return html_table(title, names, rows)

    # -- specs ---------------------------------------------------------------------------

    @cached_property
    def specs(self) -> tuple[GraphSpec, ...]:
        """The specs of the networks.

        Raises:
            FileError: one of them is damaged.
        """
        return tuple(self._spec(index) for index in range(len(self._manifest.specs)))

    @property
    def spec(self) -> GraphSpec:
        """The spec that all networks share.

        Raises:
            DataError: the networks are of several specs.
        """
        if len(self._manifest.specs) != 1:
            raise DataError(
                self.path,
                expected="networks of one spec",
                found=f"{len(self._manifest.specs)} specs",
                hint="Read networks of several specs with Zoo.groups.",
            )
        return self._spec(0)

    def spec_indices(self, indices: Indices) -> Array:
        """The index in :attr:`specs` of each network's spec."""
        networks = self._resolve(indices)
        return self._shard_specs[np.searchsorted(self._starts, networks, side="right") - 1]

    # -- networks ------------------------------------------------------------------------

    def states(self, indices: Indices) -> dict[str, Tensor]:
        """Read networks of one spec as a state dict with a leading batch dimension.

        Args:
            indices: the networks; their order, and any repetitions, are kept.

        Raises:
            DataError: an index is out of range, or the networks are of several specs.
            FileError: a shard is missing or damaged.
        """
        networks = self._resolve(indices)
        return self._gather(self._spec_of(networks), networks)

    def graph(self, indices: Indices) -> NeuralGraph:
        """Read networks of one spec as a batch of neural graphs; see :meth:`states`."""
        networks = self._resolve(indices)
        index = self._spec_of(networks)
        return NeuralGraph.from_stacked(self._spec(index), self._gather(index, networks))

    def groups(self, indices: Indices) -> list[tuple[GraphSpec, Tensor, dict[str, Tensor]]]:
        """Read networks of any specs, those of one spec together.

        Returns:
            For each spec among the networks, in the order of :attr:`specs`: the spec, the
            positions in ``indices`` of its networks, and their stacked state.

        Raises:
            DataError: an index is out of range.
            FileError: a shard is missing or damaged.
        """
        networks = self._resolve(indices)
        specs = self.spec_indices(networks)
        result = []
        for index in np.unique(specs).tolist():
            places = np.flatnonzero(specs == index)
            state = self._gather(index, networks[places])
            result.append((self._spec(index), torch.from_numpy(places), state))
        return result

    # -- metadata ------------------------------------------------------------------------

    @cached_property
    def metadata(self) -> pa.Table:
        """The table of labels, metrics and sources, one row a network.

        Raises:
            FileError: the table is missing or damaged.
        """
        return self._read_metadata(None)

    def column(self, name: str) -> npt.NDArray[Any]:
        """One column of the metadata; missing numbers are NaN, other missing values None.

        Raises:
            DataError: there is no such column.
            FileError: the table is missing or damaged.
        """
        if name not in self._columns:
            self._columns[name] = self._read_metadata(name).column(name).to_numpy()
        return self._columns[name]

    def to_pandas(self) -> pd.DataFrame:
        """The table of labels as a data frame; its index is the networks' numbers.

        Raises:
            DataError: pandas is not installed.
        """
        return table_frame(self.metadata)

    def split(self, name: str) -> Array:
        """The networks of a split, in ascending order.

        Raises:
            DataError: there is no such split.
        """
        if name not in self.splits:
            raise DataError(
                f"{self.path}, split {name!r}",
                expected=f"one of {', '.join(self.splits) or 'none'}",
                found="a name that the zoo does not have",
                hint=similar_name(name, self.splits),
            )
        return np.flatnonzero(self.column(self._manifest.split_column) == name)

    # -- reading -------------------------------------------------------------------------

    def _read_metadata(self, column: str | None) -> pa.Table:
        """Read one column or all of them."""
        import pyarrow as pa  # noqa: PLC0415 (opening and reading weights do without)
        import pyarrow.parquet as pq  # noqa: PLC0415

        path = self.path / self._manifest.metadata.name
        content = self._manifest.metadata.read(self.path)
        try:
            # On one thread and without the dataset layer: threads of Arrow that outlive the
            # interpreter abort the process at its end, now and then.
            file = pq.ParquetFile(io.BytesIO(content), pre_buffer=False)
            names = file.schema_arrow.names
            if column is not None and column not in names:
                raise DataError(
                    f"{self.path}, column {column!r}",
                    expected=f"one of {', '.join(names)}",
                    found="a name that the metadata does not have",
                    hint=similar_name(column, names),
                )
            table = file.read(None if column is None else [column], use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise FileError(path, expected="a parquet table", found=reason_of(error)) from error
        if table.num_rows != len(self):
            raise FileError(
                path, expected=f"{len(self)} rows, one a network", found=f"{table.num_rows}"
            )
        return table

    def _spec(self, index: int) -> GraphSpec:
        if index not in self._specs:
            data = self._manifest.specs[index]
            self._specs[index] = read_spec(self.path / MANIFEST, data)
        return self._specs[index]

    def _spec_of(self, networks: Array) -> int:
        found = np.unique(self.spec_indices(networks)).tolist()
        if not found and len(self._manifest.specs) == 1:
            return 0
        if len(found) != 1:
            raise DataError(
                self.path,
                expected="networks of one spec",
                found=f"networks of {len(found)} specs ({found})" if found else "no networks",
                hint="Read networks of several specs with Zoo.groups.",
            )
        return int(found[0])

    def _resolve(self, indices: Indices) -> Array:
        """Check indices and bring them into one form."""
        if isinstance(indices, slice):
            return np.arange(len(self), dtype=np.int64)[indices]
        networks = np.asarray(indices.cpu() if isinstance(indices, Tensor) else indices)
        if networks.ndim != 1 or (networks.size and networks.dtype.kind not in "iu"):
            raise DataError(
                "indices of networks",
                expected="a flat sequence of integers",
                found=f"{networks.dtype} of shape {networks.shape}",
            )
        outside = (networks < 0) | (networks >= len(self)) if networks.size else np.zeros(0, bool)
        if outside.any():
            raise DataError(
                "indices of networks",
                expected=f"numbers from 0 to {len(self) - 1}",
                found=str(networks[outside][:5].tolist())[1:-1],
            )
        return networks.astype(np.int64)

    def _gather(self, spec_index: int, networks: Array) -> dict[str, Tensor]:
        """Read networks of one spec: each distinct one once, in the order of the file."""
        spec = self._spec(spec_index)
        distinct, order = np.unique(networks, return_inverse=True)
        plan = [(self._layout(shard), runs) for shard, runs in self._runs(distinct)]
        tensors = spec_tensors(spec)
        buffers = {}
        for tensor in tensors:
            width = tensor.numel * _dtype(tensor.dtype).itemsize
            buffers[tensor.name] = np.empty((len(distinct), width), dtype=np.uint8)
        views = {name: buffer.reshape(-1).data for name, buffer in buffers.items()}
        for layout, runs in plan:
            read_rows(layout, runs, views)
        if not np.array_equal(order, np.arange(len(distinct))):
            buffers = {name: buffer[order] for name, buffer in buffers.items()}
        return {
            tensor.name: _as_tensor(
                buffers[tensor.name], _dtype(tensor.dtype), (len(networks), *tensor.shape)
            )
            for tensor in tensors
        }

    def _runs(self, networks: Array) -> Iterator[tuple[int, list[Run]]]:
        """Group ascending networks by shard, neighbours into runs."""
        if not len(networks):
            return
        shards = np.searchsorted(self._starts, networks, side="right") - 1
        apart = (np.diff(networks) != 1) | (np.diff(shards) != 0)
        firsts = np.flatnonzero(np.concatenate([[True], apart]))
        counts = np.diff(firsts, append=len(networks))
        rows = networks[firsts] - self._starts[shards[firsts]]
        runs = map(Run, rows.tolist(), counts.tolist(), firsts.tolist())
        pairs = zip(shards[firsts].tolist(), runs, strict=True)
        for shard, group in itertools.groupby(pairs, key=lambda pair: pair[0]):
            yield shard, [run for _, run in group]

    def _read_layout(self, index: int) -> ShardLayout:
        shard = self._manifest.shards[index]
        shard.file.require_size(self.path)
        layout = read_layout(self.path / shard.file.name)
        layout.require(self._spec(shard.spec), shard.networks)
        return layout


def _dtype(name: str) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def _as_tensor(buffer: npt.NDArray[np.uint8], dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    """See bytes as a tensor, without a copy."""
    if not buffer.size:
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(buffer.reshape(-1)).view(dtype).reshape(shape)
