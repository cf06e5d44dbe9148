"""The layer of the relational transformer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.nn.pair_layout import PairLayout
from weightspace.nn.relational_attention import NodeProjections, PairMaps, relational_attention


class RelationalAttention(nn.Module):
    """Attention whose queries, keys and values are changed by the state of each pair.

    Kofinas et al. 2024, appendix on the relational transformer (Diao and Loynd 2023):
    ``q_ij = q_i + q(e_ij)``, ``k_ij = k_j + k(e_ij)``, ``v_ij = v_j * s(e_ij) + v(e_ij)``,
    ``a_ij = softmax_j(q_ij . k_ij / sqrt(size))`` in each head, and a linear map of
    ``sum_j a_ij v_ij``. Biases of the maps of pairs to queries, keys and summands of values
    are left out: others do the same.

    Args:
        nodes: channels of the node states.
        pairs: channels of the pair states.
        size: channels of queries, keys and values.
        heads: into which they are divided.
    """

    def __init__(self, *, nodes: int, pairs: int, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(nodes, size) for _ in range(3))
        self.pair_query = nn.Linear(pairs, size, bias=False)
        self.pair_key = nn.Linear(pairs, size, bias=False)
        self.pair_factor = nn.Linear(pairs, size)
        self.pair_value = nn.Linear(pairs, size, bias=False)
        self.out = nn.Linear(size, nodes)

    def forward(
        self,
        layout: PairLayout,
        nodes: Float[Tensor, "nodes n"],
        pairs: Float[Tensor, "pairs d"],
    ) -> Float[Tensor, "nodes n"]:
        """Attend.

        Args:
            layout: the pairs.
            nodes: the states of all nodes.
            pairs: the states of all pairs.
        """
        factor = self.pair_factor
        mixed, pooled = relational_attention(
            layout,
            pairs,
            PairMaps(self.pair_query.weight, self.pair_key.weight, factor.weight, factor.bias),
            NodeProjections(
                self.query(nodes),
                layout.senders(self.key(nodes)),
                layout.senders(self.value(nodes)),
            ),
            heads=self.heads,
        )
        weight = self.pair_value.weight.view(self.heads, -1, pairs.shape[1])
        added = torch.bmm(pooled.transpose(0, 1), weight.transpose(1, 2)).transpose(0, 1)
        result: Tensor = self.out(mixed + added.flatten(1))
        return result


class RelationalNodes(nn.Module):
    """New node states: attention, then an MLP, each with a residual and LayerNorm after it.

    Args:
        nodes: channels of the node states.
        pairs: channels of the pair states.
        size: channels of queries, keys and values.
        heads: of the attention.
        hidden: channels of the MLP's hidden layer.
        dropout: rate after attention and MLP.
    """

    def __init__(
        self, *, nodes: int, pairs: int, size: int, heads: int, hidden: int, dropout: float
    ) -> None:
        super().__init__()
        self.attention = RelationalAttention(nodes=nodes, pairs=pairs, size=size, heads=heads)
        self.norm, self.last_norm = nn.LayerNorm(nodes), nn.LayerNorm(nodes)
        self.first, self.second = nn.Linear(nodes, hidden), nn.Linear(hidden, nodes)
        self.dropout = dropout

    def forward(
        self,
        layout: PairLayout,
        nodes: Float[Tensor, "nodes n"],
        pairs: Float[Tensor, "pairs d"],
    ) -> Float[Tensor, "nodes n"]:
        """Update the node states; arguments as of :class:`RelationalAttention`."""
        nodes = self.norm(nodes + self._dropped(self.attention(layout, nodes, pairs)))
        change = self.second(F.gelu(self.first(nodes)))
        result: Tensor = self.last_norm(nodes + self._dropped(change))
        return result

    def _dropped(self, values: Tensor) -> Tensor:
        return F.dropout(values, self.dropout, self.training)
