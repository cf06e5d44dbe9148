"""Features of a spec that are not weights: who a node is and what it computes."""

from __future__ import annotations

from typing import get_args

import torch
from jaxtyping import Int
from torch import Tensor

from weightspace.graph.axis import Role
from weightspace.graph.spec import GraphSpec


def position_identities(spec: GraphSpec) -> dict[str, Int[Tensor, " neurons"]]:
    """Number the nodes that a learned vector tells apart, each role counted by itself.

    Kofinas et al. 2024, section 3.1: one vector is shared by all nodes of a hidden layer;
    every input node and every output node has its own.

    >>> from weightspace.graph import chain_spec
    >>> list(position_identities(chain_spec([2, 3, 3, 1])).values())
    [tensor([0, 1]), tensor([0, 0, 0]), tensor([1, 1, 1]), tensor([0])]
    """
    identities: dict[str, Tensor] = {}
    start = dict.fromkeys(get_args(Role), 0)
    for node_set in spec.node_sets:
        size = spec.nodes_in(node_set.name)
        own = 1 if node_set.role == "hidden" else size
        identities[node_set.name] = (start[node_set.role] + torch.arange(own)).expand(size)
        start[node_set.role] += own
    return identities


def position_counts(spec: GraphSpec) -> dict[Role, int]:
    """How many identities :func:`position_identities` gives in each role."""
    return {
        role: sum(spec.nodes_in(n.name) if role != "hidden" else 1 for n in spec.of_role(role))
        for role in get_args(Role)
    }


def activation_identities(spec: GraphSpec) -> dict[str, int]:
    """Number each node set's activation function; input and output nodes count as none.

    Kofinas et al. 2024, section 3.2.
    """
    return {n.name: n.activation.identity if n.role == "hidden" else 0 for n in spec.node_sets}
