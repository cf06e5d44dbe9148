"""Networks out of a folder of files of any kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from weightspace.errors import FileError, WeightspaceError
from weightspace.find.network import Network, as_single, values_digest
from weightspace.graph import GraphSpec
from weightspace.importers.files.sorting import LEAVES
from weightspace.zoo.importing.blueprints import BareBlueprint
from weightspace.zoo.importing.found import FoundNetwork, Unit
from weightspace.zoo.importing.layout import Layout
from weightspace.zoo.importing.layouts import choose_layout
from weightspace.zoo.importing.listing import check_folder, readable
from weightspace.zoo.importing.states import is_finite
from weightspace.zoo.importing.survey import known_spec, read_unit, spec_of


@dataclass(frozen=True, slots=True)
class Problem:
    """A file, or a network of one, that is not compared.

    Args:
        file: its path in the folder, with the network's name behind a colon.
        reason: what was expected and what was found.
    """

    file: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}"


class Folder:
    """A folder of checkpoints, read a file at a time. Nothing in the files is executed.

    Networks whose structure names and shapes do not tell are read, too, without one: what can
    be said of them is less.

    Args:
        path: the folder, or one file.
        activation: of all hidden layers, where the files do not tell.
        specs: of modules that networks may belong to.
        layout: see :data:`weightspace.zoo.importing.LAYOUTS`, or ``auto``.

    Raises:
        FileError: there is no such folder, or it is a zoo.
        DataError: there is no such layout.
    """

    def __init__(
        self,
        path: Path,
        *,
        activation: str | None = None,
        specs: Sequence[GraphSpec] = (),
        layout: str = "checkpoints",
    ) -> None:
        self._only = path.name if path.is_file() else None
        self.path = path.parent if self._only else path
        if self._only is None:
            check_folder(path)
        self.specs = tuple(specs)
        self._layout: Layout = choose_layout(layout, self.path)(self.path, activation)

    @property
    def signature(self) -> str:
        """What the networks depend on beside the files."""
        names = ",".join(spec.fingerprint for spec in self.specs)
        return f"{self._layout.as_dict()} {names}"

    @property
    def is_whole(self) -> bool:
        """Whether all files of the folder are read, not one alone."""
        return self._only is None

    def units(self) -> list[Unit]:
        """The files to read, in order."""
        if self._only is not None:
            return [Unit(self._only)]
        return list(self._layout.listing(self._layout.files()).units)

    def read(self, unit: Unit) -> tuple[list[Network], list[Problem]]:
        """Read the networks of a file; what cannot be read is told, never raised."""
        networks: list[Network] = []
        problems: list[Problem] = []
        name = readable(unit.file)
        try:
            for found in read_unit(self._layout, unit):
                try:
                    networks.append(self._network(found, unit))
                except WeightspaceError as error:
                    whole = f"{name}:{found.key}" if found.key else name
                    problems.append(Problem(whole, self._reason(error, unit)))
        except WeightspaceError as error:
            problems.append(Problem(name, self._reason(error, unit)))
        if not networks and not problems:
            problems.append(Problem(name, "expected a network, found none"))
        return networks, problems

    def _reason(self, error: WeightspaceError, unit: Unit) -> str:
        text = str(error).replace(f"{self.path}/", "")
        return text.removeprefix(f"{readable(unit.file)}: ")

    def _network(self, found: FoundNetwork, unit: Unit) -> Network:
        """Bring a network to the form in which it is compared.

        Raises:
            WeightspaceError: it is none, or has values that are not finite.
        """
        original = found.state
        plain = {name: as_single(tensor) for name, tensor in original.items()}
        if not is_finite(plain):
            raise FileError(unit.file, expected="finite weights", found="NaN or infinity")
        found = dataclasses.replace(found, state=plain)
        if isinstance(found.blueprint, BareBlueprint):
            found = dataclasses.replace(
                found, blueprint=dataclasses.replace(found.blueprint, tensors=plain)
            )
        spec = self._spec(found, unit)
        network = Network(unit.file, found.key, plain, spec)
        digest = values_digest(original[name] for name in network.names())
        return dataclasses.replace(network, sha256=digest)

    def _spec(self, found: FoundNetwork, unit: Unit) -> GraphSpec | None:
        known = known_spec(found, self.specs)
        if known is not None:
            return known
        try:
            return spec_of(found, unit, self._layout, None)
        except WeightspaceError:
            if _looks_like_a_network(found.state):
                return None
            raise


def read_one(folder: Folder, name: str = "") -> Network:
    """Read the one network of a file.

    Args:
        folder: of one file.
        name: the network's name, if the file holds several.

    Raises:
        FileError: it cannot be read, or holds several networks and none is named.
    """
    unit = folder.units()[0]
    networks, problems = folder.read(unit)
    chosen = [n for n in networks if n.key == name] if name else networks
    if len(chosen) == 1:
        return chosen[0]
    if problems and not networks:
        raise FileError(folder.path / unit.file, expected="a network", found=problems[0].reason)
    if name and len(networks) == 1 and not networks[0].key:
        raise FileError(
            folder.path / unit.file,
            expected=f"a network called {name!r}",
            found="one network without a name",
            hint="Give the file alone.",
        )
    keys = ", ".join(n.key for n in networks[:5])
    raise FileError(
        folder.path / unit.file,
        expected=f"a network called {name!r}" if name else "one network",
        found=f"{len(networks)} networks: {keys}",
        hint=f"Name one of them: {unit.file}:NAME.",
    )


def _looks_like_a_network(state: dict[str, Tensor] | object) -> bool:
    """Whether most matrices of a state are called as weights are."""
    assert isinstance(state, dict)
    matrices = [n for n, t in state.items() if t.ndim > 1 and t.is_floating_point()]
    leaves = [name.rpartition(".")[2].rpartition("/")[2].partition(":")[0] for name in matrices]
    known = [leaf for leaf in leaves if leaf in LEAVES or "weight" in leaf or "kernel" in leaf]
    return len(known) > len(matrices) / 2
