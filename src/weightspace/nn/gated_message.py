"""Messages that carry the factor of their receivers, and edges gated by the same invariants."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from weightspace.nn.arrangement import Arrangement
from weightspace.nn.first_derivative import first_derivative
from weightspace.nn.gated_run import AtNodes, Gradients, Setting, Weights, run_backward, run_forward
from weightspace.nn.marks import Marks


class Gated(NamedTuple):
    """What edges give.

    Args:
        total: at each receiver the sum of its gated messages, ``[received, d]``; empty rows
            where the other direction receives.
        invariants: at each receiver the sum of its edges' invariants, ``[received, d]``.
        edges: the gated states of the edges, ``[edges, d]``.
    """

    total: Tensor
    invariants: Tensor
    edges: Tensor


def gated_messages(  # noqa: PLR0917 (what a graph consists of)
    arrangement: Arrangement,
    marks: Marks,
    direction: int,
    edges: Float[Tensor, "edges in"],
    nodes: AtNodes,
    weights: Weights,
    *,
    message: bool,
    edge: bool,
) -> Gated:
    """Compute messages and edge states along all connections of one direction.

    Kalogeropoulos et al. 2024: an edge carries ``q_i / q_j``, so its product with its sender's
    state carries ``q_i``, and so does the message, gated by invariants of receiver and product::

        z_ij = (G e_ij) * (S x_j)
        a_ij = (P x_i + Q z_ij) / |x_i, z_ij|
        h_ij = f(t_i + a_ij) + f(t_i - a_ij)       the second where signs act, f = SiLU
        m_ij = z_ij * (C_m h_ij + c_m)
        e_ij' = (L e_ij) * (C_e h_ij + c_e)

    Norms are roots of mean squares over channels, to which 1 is added where no scales act:
    unbounded invariants would make states powers of powers of weights. Where the norm is zero,
    so are ``a_ij`` and its gradient.

    Args:
        arrangement: of the batch.
        marks: which receivers signs and scales act on.
        direction: 0 for messages from sources to targets, 1 against.
        edges: ``e_ij``.
        nodes: what the ends bring.
        weights: the linear maps.
        message: whether messages are wanted, which have the first rows of the gates.
        edge: whether new edge states are wanted, which have the last.
    """
    outputs = _GatedMessages.apply(  # type: ignore[no-untyped-call]
        Setting(arrangement, marks, direction, message, edge), edges, *nodes, *weights
    )
    return Gated(*outputs)


class _GatedMessages(Function):
    @staticmethod
    def forward(ctx: Any, setting: Setting, edges: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        nodes, weights = AtNodes(*rest[:4]), Weights(*rest[4:])
        width, rows = nodes.sender.shape[-1], setting.arrangement.received_count
        received = rows if setting.message else 0
        total, invariants = (edges.new_zeros(received, width) for _ in range(2))
        new = edges.new_empty(len(edges) if setting.edge else 0, width)
        for way in setting.ways:
            run_forward(setting, way, edges, nodes, weights, (total, invariants, new))
        ctx.save_for_backward(edges, *rest)
        ctx.setting = setting
        return total, invariants, new

    @staticmethod
    @first_derivative
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        edges, *rest = ctx.saved_tensors
        nodes, weights = AtNodes(*rest[:4]), Weights(*rest[4:])
        into = Gradients(
            torch.empty_like(edges) if ctx.needs_input_grad[1] else None,
            AtNodes(*(torch.zeros_like(x) for x in nodes)),
            Weights(*(torch.zeros_like(x) for x in weights)),
        )
        for way in ctx.setting.ways:
            run_backward(ctx.setting, way, edges, nodes, weights, grads, into)
        return None, into.edges, *into.nodes, *into.weights
