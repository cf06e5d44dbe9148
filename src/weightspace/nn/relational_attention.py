"""Attention in which every pair of neurons has a state of its own.

The plain formulas write four projections of all pairs, some gigabytes for a batch of small
networks. Here forward and backward are written out over pieces of a few thousand pairs, and
what the backward pass needs is computed again; only the shares of attention are kept.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from weightspace.nn.attention_passes import AttentionInputs, Given
from weightspace.nn.first_derivative import first_derivative
from weightspace.nn.fusion import attention_passes
from weightspace.nn.pair_layout import PairLayout


class NodeProjections(NamedTuple):
    """What nodes bring to attention.

    Args:
        queries: of the nodes.
        keys: of all that can be attended to, nodes and pools.
        values: the same.
    """

    queries: Float[Tensor, "nodes a"]
    keys: Float[Tensor, "senders a"]
    values: Float[Tensor, "senders a"]


class PairMaps(NamedTuple):
    """The linear maps of pair states to what they add to queries and keys and multiply values by.

    Args:
        query: ``Q``.
        key: ``K``.
        factor: ``S``.
        bias: ``s``, of the factors.
    """

    query: Float[Tensor, "a d"]
    key: Float[Tensor, "a d"]
    factor: Float[Tensor, "a d"]
    bias: Float[Tensor, " a"]


def relational_attention(
    layout: PairLayout,
    pairs: Float[Tensor, "pairs d"],
    maps: PairMaps,
    nodes: NodeProjections,
    *,
    heads: int,
) -> tuple[Float[Tensor, "nodes a"], Float[Tensor, "nodes heads d"]]:
    """Attend from every neuron to the senders of its pairs.

    Diao and Loynd 2023, with the product of Kofinas et al. 2024, for each head:
    ``a_ij = softmax_j((q_i + Q e_ij) . (k_j + K e_ij) / sqrt(a))``, then
    ``sum_j a_ij v_j * (S e_ij + s)`` and ``sum_j a_ij e_ij``. The last stands for the part of
    values that is linear in pairs, which a map may be applied to after the sum.

    Args:
        layout: the pairs.
        pairs: their states.
        maps: ``Q``, ``K``, ``S`` and ``s``.
        nodes: ``q``, ``k`` and ``v``.
        heads: into which channels are divided evenly.
    """
    scale = 1 / math.sqrt(nodes.queries.shape[1])
    found: tuple[Tensor, Tensor] = _Attend.apply(  # type: ignore[no-untyped-call]
        layout,
        heads,
        pairs,
        torch.cat([maps.query * scale, maps.key, maps.factor]),
        maps.bias,
        nodes.queries * scale,
        nodes.keys,
        nodes.values,
    )
    return found


class _Attend(Function):
    @staticmethod
    def forward(  # noqa: PLR0917 (autograd passes by position)
        ctx: Any,
        layout: PairLayout,
        heads: int,
        pairs: Tensor,
        weight: Tensor,
        bias: Tensor,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
    ) -> tuple[Tensor, Tensor]:
        inputs = AttentionInputs(pairs, weight, bias, queries, keys, values)
        passes = attention_passes(inputs, heads)
        mixed, pooled, shares = passes.forward(layout, inputs, heads)
        ctx.save_for_backward(*inputs, mixed, pooled, shares)
        ctx.others = layout, passes
        return mixed, pooled.view(-1, heads, pairs.shape[1])

    @staticmethod
    @first_derivative
    def backward(ctx: Any, d_mixed: Tensor, d_pooled: Tensor) -> tuple[Tensor | None, ...]:
        *tensors, mixed, pooled, shares = ctx.saved_tensors
        layout, passes = ctx.others
        heads = shares.shape[1]
        # a change of the shares acts relative to their mean change, which the result tells
        common = (d_mixed * mixed).reshape(len(mixed), heads, -1).sum(-1)
        common += (d_pooled * pooled.view(d_pooled.shape)).sum(-1)
        given = Given(*map(layout.gather, (d_mixed, d_pooled.flatten(1), common)))
        return None, None, *passes.backward(layout, AttentionInputs(*tensors), shares, given)
