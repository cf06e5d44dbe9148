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

MOST_TRAINING = 5000
"""Training images, at the most, that statistics are estimated on."""


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
    def run(self, state: State, inputs: Tensor) -> Tensor:
        """A network's outputs.

        Raises:
            ModelError: how the network is run is not known.
        """

    @abstractmethod
    def shaped(self, inputs: Tensor) -> Tensor:
        """Inputs such as images ``[n, height, width, channels]`` in the shape of the network's."""

    @abstractmethod
    def random_inputs(self, count: int) -> Tensor:
        """Inputs to run a network on, the same in every call."""

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
        from weightspace.importers import from_checkpoint

        graph = from_checkpoint(path, module=self._module, example_inputs=self.inputs)
        return graph.state_dict()

    def run(self, state: State, inputs: Tensor) -> Tensor:
        """See :class:`Architecture`."""
        import torch

        with torch.no_grad():
            result = torch.func.functional_call(self._module, dict(state), (inputs,))
        if not isinstance(result, torch.Tensor):
            raise ModelError("--module", expected="a tensor as output", found=type(result).__name__)
        return result

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

    def random_inputs(self, count: int) -> Tensor:
        """See :class:`Architecture`."""
        import torch

        like, generator = self.inputs[0], torch.Generator().manual_seed(0)
        shape = (count, *like.shape[1:])
        if like.is_floating_point():
            return torch.randn(shape, generator=generator)
        return torch.randint(0, 2, shape, generator=generator)

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
        from weightspace.cli.networks import read_network

        return read_network(path, self.spec)

    def run(self, state: State, inputs: Tensor) -> Tensor:
        """See :class:`Architecture`."""
        from weightspace.graph import ChainRunner

        try:
            values = ChainRunner(self.spec).run(state, inputs)
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
        return float(F.cross_entropy(architecture.run(state, inputs), y))

    return Measured(loss, inputs, architecture.shaped(images.train[:MOST_TRAINING]))
