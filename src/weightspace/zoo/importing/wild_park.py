"""The CNN Wild Park: networks of many architectures, at several epochs each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from weightspace.errors import FileError
from weightspace.importers import Checkpoint
from weightspace.zoo.importing.blueprints import BareBlueprint
from weightspace.zoo.importing.checkpoints import moment_of
from weightspace.zoo.importing.dwsnets import DwsNets
from weightspace.zoo.importing.found import Blueprint, FoundNetwork, Unit
from weightspace.zoo.importing.hydra_checkpoint import read_hydra
from weightspace.zoo.importing.layout import Layout
from weightspace.zoo.importing.listing import GLANCES, Listing, list_files, suffix_of
from weightspace.zoo.importing.park_cnn import FIELDS, CnnBlueprint
from weightspace.zoo.importing.ray_trials import checkpoint_number, metrics_row
from weightspace.zoo.importing.split_file import SplitTable
from weightspace.zoo.importing.tables import Row, flat, read_json_value

CONFIGS = ("config.json", "params.json", "model_config.json")
METRICS = ("metrics.json", "result.json")


@dataclass(frozen=True)
class WildPark(Layout):
    """Runs of CNNs, each with its own configuration (Kofinas et al. 2024).

    ``run/checkpoint_000010/checkpoint.pt`` holds the network (``model``), its architecture
    (``config``: channels, kernel sizes, residual connections, activations) and the last
    result (``test/acc``). Configuration and measures may also be JSON files of the run. Where
    a configuration tells the residual connections and activations, the spec is traced from a
    module that is built by it.
    """

    name: ClassVar[str] = "wild-park"
    summary: ClassVar[str] = "runs of CNNs with their configuration, a folder an epoch"

    @classmethod
    def fits(cls, folder: Path, files: list[str]) -> bool:
        """One of the first checkpoints of runs, or a file beside it, tells an architecture."""
        checkpoints = [
            file
            for file in files
            if checkpoint_number(file) is not None and suffix_of(file) in (".pt", ".pth")
        ]
        runs = [file for file in files if PurePosixPath(file).name in CONFIGS]
        return any(
            _is_architecture(_own_config(folder / file))
            or _is_architecture(_beside(folder, file, CONFIGS))
            for file in checkpoints[:GLANCES]
        ) or any(_is_architecture(_beside(folder, file, CONFIGS)) for file in runs[:GLANCES])

    def listing(self, files: list[str]) -> Listing:
        """Every checkpoint."""
        return list_files(files, lambda file: suffix_of(file) in (".pt", ".pth", ".ckpt"))

    def read(self, unit: Unit) -> Iterator[FoundNetwork]:
        """Read a checkpoint with its architecture and measures."""
        checkpoint = read_hydra(self.folder / unit.file)
        config = checkpoint.config.get("config")
        if not isinstance(config, Mapping):
            config = _model_of(_beside(self.folder, unit.file, CONFIGS))
        run, epoch = self._moment(unit.file, checkpoint)
        row: Row = {"run": run, "epoch": epoch, **self._measures(unit.file, checkpoint, epoch)}
        row |= dict(flat(config, "config.")) if isinstance(config, Mapping) else {}
        yield FoundNetwork(
            "", checkpoint.tensors, self._blueprint(checkpoint, config, unit), row, run
        )

    def splits(self, files: list[str]) -> SplitTable | None:
        """The split file, if there is exactly one."""
        return DwsNets(self.folder).splits(files)

    def _blueprint(self, checkpoint: Checkpoint, config: object, unit: Unit) -> Blueprint:
        if not _is_architecture(config):
            return BareBlueprint(checkpoint.tensors, self.activation)
        assert isinstance(config, Mapping)
        return CnnBlueprint.of(config, checkpoint.tensors, self.folder / unit.file)

    def _moment(self, file: str, checkpoint: Checkpoint) -> tuple[str, int | None]:
        number = checkpoint_number(file)
        if number is not None:
            return PurePosixPath(file).parent.parent.as_posix(), number
        moment = moment_of(file)
        found = checkpoint.config.get("iteration", checkpoint.config.get("epoch"))
        epoch = moment[2] if moment else found if isinstance(found, int) else None
        folder = PurePosixPath(file).parent
        run = folder.parent if folder.name == "checkpoints" else folder
        return run.as_posix(), epoch

    def _measures(self, file: str, checkpoint: Checkpoint, epoch: int | None) -> Row:
        result = checkpoint.config.get("last_result")
        if isinstance(result, Mapping):
            return metrics_row(result)
        found = _beside(self.folder, file, METRICS)
        if isinstance(found, list):
            for item in found:
                if isinstance(item, Mapping) and item.get("epoch") == epoch:
                    return metrics_row(item)
        if isinstance(found, Mapping):
            at_epoch = found.get(str(epoch))
            return metrics_row(at_epoch if isinstance(at_epoch, Mapping) else found)
        return {}


def _own_config(path: Path) -> object:
    """The configuration in a checkpoint; None if it cannot be read."""
    try:
        return read_hydra(path).config.get("config")
    except (FileError, OSError):
        return None


def _is_architecture(config: object) -> bool:
    return isinstance(config, Mapping) and all(name in config for name in FIELDS)


def _model_of(config: object) -> object:
    """A run's configuration may have the network's within it."""
    if isinstance(config, Mapping) and isinstance(config.get("model"), Mapping):
        return config["model"]
    return config


def _beside(folder: Path, file: str, names: tuple[str, ...]) -> Any:
    """The first JSON file of the given names in a run's folder, above a checkpoint."""
    for parent in list(PurePosixPath(file).parents)[:3]:
        for name in names:
            path = folder / parent / name
            if path.is_file():
                try:
                    return _model_of(read_json_value(path)) if names is CONFIGS else (
                        read_json_value(path)
                    )  # fmt: skip
                except FileError:
                    return None
    return None
