"""Canonical scales: one representative of the networks that differ in neurons' scales."""

from __future__ import annotations

from weightspace.graph.settling import Stacked, settled_factors
from weightspace.graph.spec import GraphSpec


def canonical_scales(spec: GraphSpec, stacked: Stacked) -> Stacked:
    """Divide neurons by the norm of their incoming weights and bias.

    After a positively homogeneous activation such as ReLU, a neuron with its incoming weights
    and bias multiplied by ``q > 0`` and its outgoing weights divided by it computes the same
    function (Kalogeropoulos et al. 2024). Here every such neuron is given incoming weights of
    norm one, from the inputs onwards, since a layer's scales change the norms of the next: one
    form for all networks that differ in scales alone. Permuting neurons permutes it.

    A neuron whose incoming weights are all zero is judged by its outgoing weights instead; so is
    one that only hears such neurons. Differentiable in the tensors. See
    :func:`weightspace.graph.settling.settled_factors`.

    Args:
        spec: its rescalings of kind ``"scale"`` say which neurons may be scaled.
        stacked: the networks' tensors with a leading batch dimension.

    Returns:
        New tensors of the same functions, up to rounding.

    >>> import torch
    >>> from weightspace.graph import chain_spec
    >>> spec = chain_spec([1, 2, 1], activations="relu", bias=False)
    >>> first, second = torch.tensor([[[2.0], [-4.0]]]), torch.tensor([[[1.0, 2.0]]])
    >>> canonical_scales(spec, {"0.weight": first, "1.weight": second})["1.weight"].flatten()
    tensor([2., 8.])
    """
    return settled_factors(spec, stacked, "scale")[0]
