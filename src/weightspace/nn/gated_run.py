"""Gated messages of one run of connections, forwards and backwards, piece by piece.

Written out over pieces of the connections that stay in the processor's cache: nothing as large
as the edges is written but their new states and the gradient of their old ones. All between is
computed again on the way back, which costs less than fetching it from memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from weightspace.nn.arrangement import Arrangement
from weightspace.nn.marks import Mark, Marks
from weightspace.nn.pieces import Direction, Ends, Piece


class Weights(NamedTuple):
    """The linear maps of :func:`gated_messages`.

    Args:
        edge: ``G``, ``[d, in]``.
        product: ``Q``, ``[d, d]``.
        gates: ``C``, ``[d, d]`` for each of message and edge that is wanted, one below another.
        offset: ``c``, the same.
        lift: ``L``, ``[d, in]``: what the edges' gate multiplies; empty for the edge itself.
    """

    edge: Tensor
    product: Tensor
    gates: Tensor
    offset: Tensor
    lift: Tensor


class AtNodes(NamedTuple):
    """What nodes bring to :func:`gated_messages`, each ``[nodes, d]``.

    Args:
        sender: ``S x_j``.
        receiver: ``P x_i``.
        given: ``t_i``, invariant.
        square: ``|x_i|^2``, ``[nodes, 1]``.
    """

    sender: Tensor
    receiver: Tensor
    given: Tensor
    square: Tensor


@dataclass(frozen=True, eq=False)
class Setting:
    """What is computed, see :func:`weightspace.nn.gated_message.gated_messages`."""

    arrangement: Arrangement
    marks: Marks
    direction: int
    message: bool
    edge: bool

    @property
    def ways(self) -> list[Direction]:
        """Every run, in this direction."""
        return [Direction(run, self.direction) for run in self.arrangement.runs]


class Gradients(NamedTuple):
    """Room for the gradients; none for edges that need none."""

    edges: Tensor | None
    nodes: AtNodes
    weights: Weights


def run_forward(  # noqa: PLR0917 (one step of one loop)
    setting: Setting,
    way: Direction,
    edges: Tensor,
    nodes: AtNodes,
    weights: Weights,
    outputs: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Compute the messages and new edges of a run into the outputs."""
    worker = _Worker(setting, way, nodes, weights)
    width, lead = worker.width, way.run.lead
    for piece in way.pieces(width):
        local = worker.local(piece, edges)
        if setting.message:
            total, invariants = (x[way.received].view(lead, -1, width) for x in outputs[:2])
            invariants[piece.lead] = local.hidden.sum(way.over)
            total[piece.lead] = worker.message_gate(local).mul_(local.product).sum(way.over)
        if setting.edge:
            gate = worker.edge_gate(local)
            torch.mul(worker.base(local), gate, out=outputs[2][piece.edges].view(gate.shape))


def run_backward(  # noqa: PLR0917 (one step of one loop)
    setting: Setting,
    way: Direction,
    edges: Tensor,
    nodes: AtNodes,
    weights: Weights,
    grads: tuple[Tensor, ...],
    into: Gradients,
) -> None:
    """Add the gradients of a run's inputs, given those of its outputs."""
    worker = _Worker(setting, way, nodes, weights)
    ends, others = Ends.empty(way, nodes.receiver), Ends.empty(way, nodes.given)
    squares = Ends.empty(way, nodes.square)
    for piece in way.pieces(worker.width):
        local = worker.local(piece, edges)
        d_hidden, d_product, d_base = worker.gates_backward(piece, local, grads, into.weights)
        d_argument, d_given = worker.activation_backward(piece, local, d_hidden)
        others.receiver[piece.lead] = d_given.sum(way.over, keepdim=True)
        # the inverse norm is the mean square to the power of -1/2
        d_square = (d_argument * local.argument).sum(-1, keepdim=True)
        d_square.mul_(local.inverse.square()).mul_(-0.5 / worker.width)
        squares.receiver[piece.lead] = d_square.sum(way.over, keepdim=True)
        d_mixed = d_argument.mul_(local.inverse)
        ends.receiver[piece.lead] = d_mixed.sum(way.over, keepdim=True)
        rows = d_mixed.flatten(0, 2)
        into.weights.product.addmm_(rows.T, local.product.flatten(0, 2))
        d_product.flatten(0, 2).addmm_(rows, weights.product)
        d_product.addcmul_(local.product, d_square, value=2.0)
        sent = torch.mul(d_product, local.lifted, out=local.product)
        ends.sender[piece.lead] = sent.sum(3 - way.over, keepdim=True)
        worker.edge_backward(piece, local, d_product, d_base, into)
    ends.add_to(way, into.nodes.receiver, into.nodes.sender)
    _add(way, others, into.nodes.given)
    _add(way, squares, into.nodes.square)


class _Local(NamedTuple):
    """One piece of the connections, computed forwards and backwards alike.

    Args:
        states: ``e_ij``.
        lifted: ``G e_ij``.
        product: ``z_ij``.
        inverse: ``1 / |x_i, z_ij|``.
        argument: ``a_ij``.
        hidden: ``h_ij``.
    """

    states: Tensor
    lifted: Tensor
    product: Tensor
    inverse: Tensor
    argument: Tensor
    hidden: Tensor


class _Worker:
    """The steps on a piece of a run.

    Args:
        setting: what is computed.
        way: the run and its direction.
        nodes: what nodes bring.
        weights: the linear maps.
    """

    def __init__(self, setting: Setting, way: Direction, nodes: AtNodes, weights: Weights) -> None:
        self.setting, self.way, self.weights = setting, way, weights
        self.width = nodes.sender.shape[-1]
        ends = Ends.of(way, nodes.receiver, nodes.sender)
        self.receiver, self.sender = ends.receiver, ends.sender
        self.given = Ends.of(way, nodes.given, nodes.given).receiver
        self.square = Ends.of(way, nodes.square, nodes.square).receiver
        sign, scale = setting.marks.at(way)
        self.sign = sign.to(nodes.sender) if isinstance(sign, Tensor) else sign
        self.scale = scale.to(nodes.sender) if isinstance(scale, Tensor) else scale

    def local(self, piece: Piece, edges: Tensor) -> _Local:
        """Everything up to the invariants."""
        run, weights = self.way.run, self.weights
        shape = (-1, run.targets, run.sources, self.width)
        states = edges[piece.edges]
        lifted = (states @ weights.edge.T).view(shape)
        product = lifted * self.sender[piece.lead]
        argument = (product.flatten(0, 2) @ weights.product.T).view(shape)
        argument.add_(self.receiver[piece.lead])
        mean = (product * product).sum(-1, keepdim=True)
        mean.add_(self.square[piece.lead]).div_(self.width).add_(1 - _part(self.scale, piece))
        inverse = torch.where(mean > 0, mean.rsqrt(), 0)
        argument.mul_(inverse)
        given, sign = self.given[piece.lead], _part(self.sign, piece)
        hidden = F.silu(given + argument, inplace=True)
        if isinstance(sign, Tensor):
            hidden.addcmul_(F.silu(given - argument, inplace=True), sign)
        elif sign:
            hidden.add_(F.silu(given - argument, inplace=True))
        return _Local(states, lifted, product, inverse, argument, hidden)

    def message_gate(self, local: _Local) -> Tensor:
        """``C_m h_ij + c_m``."""
        return self._gate(local, slice(0, self.width))

    def edge_gate(self, local: _Local) -> Tensor:
        """``C_e h_ij + c_e``."""
        return self._gate(local, self._edge_rows)

    @property
    def _edge_rows(self) -> slice:
        rows = len(self.weights.gates)
        return slice(rows - self.width, rows)

    def _gate(self, local: _Local, rows: slice) -> Tensor:
        weights, hidden = self.weights, local.hidden
        gate = torch.addmm(weights.offset[rows], hidden.flatten(0, 2), weights.gates[rows].T)
        return gate.view(hidden.shape)

    def base(self, local: _Local) -> Tensor:
        """What the edges' gate multiplies: ``L e_ij``, or ``e_ij``."""
        lift = self.weights.lift
        states = local.states @ lift.T if lift.numel() else local.states
        return states.view(local.hidden.shape)

    def gates_backward(
        self, piece: Piece, local: _Local, grads: tuple[Tensor, ...], into: Weights
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The gradients of ``h_ij``, of ``z_ij`` and of what the edges' gate multiplies."""
        d_hidden, d_base = torch.empty_like(local.hidden), None
        if self.setting.message:
            d_sum, d_invariant = (
                grad[self.way.received].view(self.way.run.lead, -1, self.width)[piece.lead]
                for grad in grads[:2]
            )
            d_hidden.copy_(d_invariant.unsqueeze(self.way.over).expand_as(d_hidden))
            d_sum = d_sum.unsqueeze(self.way.over)
            self._gate_backward(slice(0, self.width), local, d_sum * local.product, d_hidden, into)
            d_product = self.message_gate(local).mul_(d_sum)
        else:
            d_hidden.zero_()
            d_product = torch.zeros_like(local.product)
        if self.setting.edge:
            given = grads[2][piece.edges].view(local.hidden.shape)
            self._gate_backward(self._edge_rows, local, given * self.base(local), d_hidden, into)
            d_base = self.edge_gate(local).mul_(given)
        return d_hidden, d_product, d_base

    def _gate_backward(
        self, chosen: slice, local: _Local, d_gate: Tensor, d_hidden: Tensor, into: Weights
    ) -> None:
        rows = d_gate.flatten(0, 2)
        into.gates[chosen].addmm_(rows.T, local.hidden.flatten(0, 2))
        into.offset[chosen].add_(rows.sum(0))
        d_hidden.flatten(0, 2).addmm_(rows, self.weights.gates[chosen])

    def activation_backward(
        self, piece: Piece, local: _Local, grad: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The gradients of ``a_ij`` and of ``t_i``, which may be one tensor."""
        given, sign = self.given[piece.lead], _part(self.sign, piece)
        plus = torch.ops.aten.silu_backward(grad, given + local.argument)
        if not isinstance(sign, Tensor) and not sign:
            return plus, plus
        minus = torch.ops.aten.silu_backward(grad, given - local.argument)
        if isinstance(sign, Tensor):
            minus.mul_(sign)
        return plus - minus, plus.add_(minus)

    def edge_backward(
        self,
        piece: Piece,
        local: _Local,
        d_product: Tensor,
        d_base: Tensor | None,
        into: Gradients,
    ) -> None:
        """The gradients of edges, given those of their products; overwrites the latter."""
        weights = self.weights
        rows = d_product.mul_(self.sender[piece.lead]).flatten(0, 2)
        into.weights.edge.addmm_(rows.T, local.states)
        lifts = bool(weights.lift.numel())
        if d_base is not None and lifts:
            into.weights.lift.addmm_(d_base.flatten(0, 2).T, local.states)
        if into.edges is None:
            return
        d_edges = into.edges[piece.edges]
        torch.mm(rows, weights.edge, out=d_edges)
        if d_base is not None:
            flat = d_base.flatten(0, 2)
            d_edges += flat @ weights.lift if lifts else flat


def _part(mark: Mark, piece: Piece) -> Mark:
    return mark[piece.lead] if isinstance(mark, Tensor) else mark


def _add(way: Direction, ends: Ends, into: Tensor) -> None:
    """Add the receivers' values to those of the node buffer, in place."""
    rows = way.run.source if way.index else way.run.target
    flat = ends.receiver.reshape(-1, into.shape[-1])
    if isinstance(rows, slice):
        into[rows].add_(flat)
    else:
        into.index_add_(0, rows.to(into.device), flat)
