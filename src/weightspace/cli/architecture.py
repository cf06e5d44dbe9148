"""The one architecture of several checkpoint files, for commands that compare networks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from weightspace.errors import DataError, ModelError, WeightspaceError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from weightspace.graph import GraphSpec, State

    Inputs = Tensor | tuple[Tensor, ...]

MOST_TRAINING = 5000
"""Training images, at the most, that statistics are estimated on."""
MOST_VALUES = 2**20
"""Values of random inputs, at the most, unless one input has more."""


class Architecture(ABC):
    """How files of one architecture are read and, where that is known, run."""

    spec: GraphSpec

    @abstractmethod
    def read(self, path: Path) -> dict[str, Tensor]:
        """A network's tensors under the spec's names.

        Raises:
            FileError: the file cannot be read, or holds another architecture.
        """

    @abstractmethod
    def run(self, state: State, inputs: Inputs) -> Tensor:
        """A network's outputs; several tensors one after the other, as one vector.

        Raises:
            ModelError: how the network is run is not known, or it does not take the inputs.
        """

    @abstractmethod
    def shaped(self, inputs: Tensor) -> Tensor:
        """Inputs such as images ``[n, height, width, channels]`` in the shape of the network's."""

    @abstractmethod
    def random_inputs(self, count: int) -> Inputs:
        """Inputs to run a network on, the same in every call; fewer of large ones."""

    def module(self, state: State) -> nn.Module:
        """The network as a module with these tensors.

        Raises:
            ModelError: there is no module.
        """
        raise ModelError(
            "--module",
            expected="the networks' module",
            found="none",
            hint="Give --module package.module:name and --inputs SHAPE.",
        )


class NamedModule(Architecture):
    """The architecture of a module that a person names."""

    def __init__(self, name: str, inputs: str | None) -> None:
        from weightspace.cli.modules import example_tensors, import_module
        from weightspace.importers import module_spec

        self._module, self.inputs = import_module(name), example_tensors(inputs)
        self.spec = module_spec(self._module, self.inputs)

    def read(self, path: Path) -> dict[str, Tensor]:
        """See :class:`Architecture`."""
        import copy

        from torch import Tensor

        from weightspace.cli.viewing import load

        filled = copy.deepcopy(self._module)
        load(filled, path)
        return {n: t for n, t in filled.state_dict().items() if isinstance(t, Tensor)}

    def run(self, state: State, inputs: Inputs) -> Tensor:
        """See :class:`Architecture`."""
        import torch
        from torch.utils._pytree import tree_leaves

        given = (inputs,) if isinstance(inputs, torch.Tensor) else inputs
        try:
            with torch.no_grad():
                # Tied tensors come under both names, and may be copies of each other.
                result = torch.func.functional_call(
                    self._module, dict(state), given, tie_weights=False
                )
        except Exception as error:  # the code is the person's own and can raise anything
            shapes = ", ".join(str(list(t.shape)) for t in given)
            raise ModelError(
                "--module",
                expected=f"a network that runs on inputs of shapes {shapes}",
                found=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}",
            ) from error
        if isinstance(result, torch.Tensor):
            return result
        tensors = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        if not tensors:
            raise ModelError("--module", expected="tensors as output", found=type(result).__name__)
        return torch.cat([tensor.flatten() for tensor in tensors])

    def shaped(self, inputs: Tensor) -> Tensor:
        """See :class:`Architecture`."""
        wanted = tuple(self.inputs[0].shape[1:])
        if inputs.ndim == 4 and len(wanted) == 3:
            inputs = inputs.movedim(-1, 1)
        try:
            return inputs.reshape(len(inputs), *wanted)
        except RuntimeError as error:
            raise DataError(
                "--data",
                expected=f"inputs of shape {list(wanted)}, as --inputs says",
                found=f"{list(inputs.shape[1:])}",
            ) from error

    def random_inputs(self, count: int) -> Inputs:
        """See :class:`Architecture`."""
        batches = {len(t) for t in self.inputs if t.ndim}
        if len(batches) != 1 or any(t.ndim < 2 and t.is_floating_point() for t in self.inputs):
            return self.inputs  # which dimension counts inputs is not known
        own = batches.pop()
        several = max(own, min(count, MOST_VALUES * own // sum(t.numel() for t in self.inputs)))
        drawn = self._drawn(several)
        try:
            self.run(self._module.state_dict(), drawn)
        except ModelError:  # it takes no other number of inputs
            return self.inputs
        return drawn

    def _drawn(self, count: int) -> tuple[Tensor, ...]:
        import torch

        generator = torch.Generator().manual_seed(0)
        return tuple(
            torch.randn(count, *like.shape[1:], generator=generator)
            if like.is_floating_point()
            else torch.randint(0, 2, (count, *like.shape[1:]), generator=generator)
            for like in self.inputs
        )

    def module(self, state: State) -> nn.Module:
        """See :class:`Architecture`."""
        self._module.load_state_dict(dict(state))
        return self._module


class RecognisedChain(Architecture):
    """The architecture that a bare checkpoint's names and shapes tell."""

    def __init__(self, path: Path, activation: str | None) -> None:
        from weightspace.importers import from_checkpoint

        self.spec = from_checkpoint(path, activations=activation).spec

    def read(self, path: Path) -> dict[str, Tensor]:
        """See :class:`Architecture`."""
        from weightspace.cli.networks import computable, read_network

        hint = "All networks must be of one architecture."
        return computable(read_network(path, self.spec, hint=hint))

    def run(self, state: State, inputs: Inputs) -> Tensor:
        """See :class:`Architecture`."""
        import torch

        from weightspace.graph import ChainRunner

        given = inputs if isinstance(inputs, torch.Tensor) else inputs[0]
        try:
            values = ChainRunner(self.spec).run(_single(state), given)
        except WeightspaceError as error:
            raise ModelError(
                "networks",
                expected="a chain with known activations, or a module",
                found=str(error),
                hint="Give --activation, or --module and --inputs.",
            ) from error
        return values[self.spec.node_sets[-1].name]

    def shaped(self, inputs: Tensor) -> Tensor:
        """See :class:`Architecture`."""
        return inputs.flatten(1)

    def random_inputs(self, count: int) -> Tensor:
        """See :class:`Architecture`."""
        import torch

        neurons = self.spec.nodes_in(self.spec.node_sets[0].name)
        return torch.randn(count, neurons, generator=torch.Generator().manual_seed(0))


def architecture_of(
    path: Path, *, module: str | None, inputs: str | None, activation: str | None
) -> Architecture:
    """The architecture of a file: that of the module, if one is named."""
    if module is not None:
        return NamedModule(module, inputs)
    return RecognisedChain(path, activation)


class Measured(NamedTuple):
    """How networks are judged on labelled images.

    Args:
        loss: of a network's tensors.
        inputs: that it is taken on: the test images where there are any.
        training: the inputs of some training images.
    """

    loss: Callable[[State], float]
    inputs: Tensor
    training: Tensor


def loss_on(architecture: Architecture, data: str | None, *, most: int = 2000) -> Measured | None:
    """The mean cross-entropy of networks on labelled images.

    Args:
        architecture: of the networks.
        data: a name such as mnist, an .npz file, or None.
        most: images at the most.
    """
    if data is None:
        return None
    import torch.nn.functional as F

    from weightspace.zoo.data_folder import images_of

    images = images_of(data)
    there = len(images.test) > 0
    x = (images.test if there else images.train)[:most]
    y = (images.test_labels if there else images.train_labels)[:most]
    inputs = architecture.shaped(x)

    def loss(state: State) -> float:
        outputs = architecture.run(state, inputs)
        if outputs.ndim != 2 or len(outputs) != len(y) or int(y.max()) >= outputs.shape[1]:
            raise DataError(
                "--data",
                expected=f"a network with an output for each of {int(y.max()) + 1} classes",
                found=f"outputs of shape {list(outputs.shape)}",
            )
        return float(F.cross_entropy(outputs, y))

    return Measured(loss, inputs, architecture.shaped(images.train[:MOST_TRAINING]))


def _single(state: State) -> dict[str, Tensor]:
    """Tensors of any precision in that of the inputs."""
    return {name: t.float() if t.is_floating_point() else t for name, t in state.items()}
