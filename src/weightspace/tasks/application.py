"""Running many networks of one architecture on the same inputs, with gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.errors import ModelError, StateError
from weightspace.graph import Batch, ChainRunner, GraphSpec, NeuralGraph, check_state


class Application(Protocol):
    """Applies every network of a batch to the same inputs."""

    def __call__(
        self, networks: Batch, inputs: Float[Tensor, "inputs *shape"]
    ) -> Float[Tensor, "networks inputs *out"]:
        """The outputs; gradients flow to the networks' parameters and to the inputs."""


class ChainApplication:
    """Applies multilayer perceptrons: a batched matrix product a layer.

    Args:
        spec: a chain, see :func:`weightspace.graph.chain_spec`.

    Raises:
        SpecError: the spec is not a chain.

    >>> from weightspace.graph import chain_spec
    >>> from weightspace.testing import sample_graph
    >>> spec = chain_spec([4, 8, 3])
    >>> networks = sample_graph(spec, 2, dtype=torch.float32)
    >>> ChainApplication(spec)(networks, torch.zeros(5, 2, 2)).shape
    torch.Size([2, 5, 3])
    """

    def __init__(self, spec: GraphSpec) -> None:
        self._runner = ChainRunner(spec)
        self._output = spec.node_sets[-1].name

    def __call__(
        self, networks: Batch, inputs: Float[Tensor, "inputs *shape"]
    ) -> Float[Tensor, "networks inputs out"]:
        """The outputs on inputs of any shape, which are flattened.

        Raises:
            ModelError: the networks are of several architectures.
            StateError: or of another than the spec's.
        """
        stacked = stacked_of(self._runner.spec, networks)
        return self._runner.run_stacked(stacked, inputs.flatten(1))[self._output]


class ModuleApplication:
    """Applies networks of any architecture, through one module of it.

    ``torch.func.vmap`` runs the module over the stacked parameters: convolutions of all
    networks become one grouped convolution.

    Args:
        module: its state dict has the names of the networks' tensors.

    >>> from weightspace.importers import from_module
    >>> module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> graph = from_module(module, torch.zeros(1, 4))
    >>> ModuleApplication(module)(graph, torch.zeros(5, 4)).shape
    torch.Size([1, 5, 3])
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._names = set(module.state_dict())

    def __call__(
        self, networks: Batch, inputs: Float[Tensor, "inputs *shape"]
    ) -> Float[Tensor, "networks inputs *out"]:
        """The outputs.

        Raises:
            ModelError: the networks are of several architectures.
            StateError: the networks are not of the module's architecture.
        """
        stacked = of_one_spec(networks).stacked_state()
        if set(stacked) != self._names:
            raise StateError(
                "networks",
                expected=f"the module's tensors {', '.join(sorted(self._names))}",
                found=", ".join(sorted(stacked)),
            )

        def run(state: Mapping[str, Tensor]) -> Tensor:
            outputs: Tensor = torch.func.functional_call(self._module, dict(state), (inputs,))
            return outputs

        outputs: Tensor = torch.func.vmap(run, randomness="different")(stacked)
        return outputs


def stacked_of(spec: GraphSpec, networks: Batch) -> dict[str, Tensor]:
    """The stacked state of networks that are of one spec.

    Raises:
        ModelError: they are of several architectures.
        StateError: or of another than the spec's.
    """
    stacked = of_one_spec(networks).stacked_state()
    check_state(spec, stacked, batch=True)
    return stacked


def of_one_spec(networks: Batch) -> NeuralGraph:
    """A batch whose networks have one architecture, as one graph.

    Raises:
        ModelError: they have several.
    """
    if isinstance(networks, NeuralGraph):
        return networks
    if len(networks.parts) > 1:
        raise ModelError(
            "networks that are run together",
            expected="one architecture",
            found=f"{len(networks.parts)}",
            hint="Batches of several architectures can be read, but not run at once.",
        )
    return networks.parts[0][list(networks.order)]
