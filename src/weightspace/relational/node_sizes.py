"""How the channels of a layer are shared out among the nodes of a graph."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from weightspace.errors import GraphError

_PUBLISHED_SEED = 1


def node_sizes(width: int, nodes: int, *, subject: object = "layer") -> tuple[int, ...]:
    """The number of channels of each node, as the published experiments share them out.

    You et al., Graph Structure of Neural Networks (2020), appendix: every node gets
    ``width // nodes`` channels, the remainder goes to some nodes one by one. Which nodes these
    are is one fixed permutation for each number of nodes; NumPy's global generator is neither
    read nor changed.

    Args:
        width: the number of channels of the layer.
        nodes: the number of nodes of the graph.
        subject: what an error names.

    Raises:
        GraphError: there are more nodes than channels.

    >>> sorted(node_sizes(9, 4))
    [2, 2, 2, 3]
    """
    if not 1 <= nodes <= width:
        raise GraphError(
            subject,
            expected=f"a graph of at most {width} nodes, the number of channels",
            found=f"{nodes} nodes",
            hint="Every node needs a channel in every layer: widen the layer or keep it dense.",
        )
    return _sizes(width, nodes)


@lru_cache(maxsize=4096)
def _sizes(width: int, nodes: int) -> tuple[int, ...]:
    sizes = np.full(nodes, width // nodes)
    sizes[: width % nodes] += 1
    # The legacy generator, because the published sizes are its.
    shuffled = np.random.RandomState(_PUBLISHED_SEED).permutation(sizes)
    return tuple(int(size) for size in shuffled)
