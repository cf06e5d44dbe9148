"""Small networks, and what can be made of them without training."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.align.networks import KINDS, trained
from weightspace.find import Network
from weightspace.find.freeing import freed
from weightspace.graph import GraphSpec, SymmetryGroup, chain_spec
from weightspace.importers import from_module, from_state

State = dict[str, Tensor]
PERMUTED = ("permutation",)


def state_of(spec: GraphSpec, seed: int = 0) -> State:
    draw = torch.Generator().manual_seed(seed)
    return {p.name: 0.5 * torch.randn(p.shape, generator=draw) for p in spec.parameters}


def chain(seed: int = 0, sizes: tuple[int, ...] = (12, 24, 16, 6), **options: object) -> Network:
    spec = chain_spec(sizes, **{"activations": "unknown", **options})
    return Network.of(state_of(spec, seed), spec)


def small_cnn(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 12, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(12 * 16, 4),
    )  # fmt: skip


def bare(module: nn.Module) -> Network:
    state = module.state_dict()
    return Network.of(state, from_state(state).spec)


def traced(kind: str, seed: int = 0) -> Network:
    module, inputs = trained(kind, seed)
    graph = from_module(module, (inputs,))
    return Network.of(module.state_dict(), graph.spec)


TRACED = tuple(KINDS)


def moved(network: Network, kinds: tuple[str, ...] = PERMUTED, seed: int = 3) -> Network:
    """The same function, its neurons in another order, or rescaled as may be assumed."""
    assert network.spec is not None
    spec = network.spec
    for kind in kinds:
        if kind != "permutation":
            spec = freed(spec, (kind,))  # type: ignore[arg-type]
    element = SymmetryGroup(spec).sample(torch.Generator().manual_seed(seed), kinds=kinds)
    return Network.of(element.act_state(network.state), network.spec)


def changed(network: Network, change: object) -> Network:
    """A network with every matrix changed by a function."""
    state = {
        name: change(tensor) if tensor.ndim > 1 else tensor  # type: ignore[operator]
        for name, tensor in network.state.items()
    }
    return Network.of(state, network.spec)


def tuned(network: Network, amount: float = 0.3, seed: int = 5) -> Network:
    """Weights with noise, as training on would add to all of them."""
    draw = torch.Generator().manual_seed(seed)
    return changed(network, lambda t: t + amount * t.std() * torch.randn(t.shape, generator=draw))


def rounded(network: Network) -> Network:
    return changed(network, lambda t: (t / t.abs().max() * 127).round() * (t.abs().max() / 127))


def pruned(network: Network, share: float = 0.6) -> Network:
    return changed(network, lambda t: t * (t.abs() > t.abs().quantile(share)))
