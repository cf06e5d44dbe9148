"""The hidden layers of multilayer perceptrons on vectors of statistics, answers or weights."""

from __future__ import annotations

import itertools

from torch import nn


def hidden_layers(inputs: int, width: int, layers: int, *, dropout: float) -> nn.Sequential:
    """Linear maps, each with LayerNorm, ReLU and dropout.

    Args:
        inputs: values of a vector.
        width: neurons of each layer.
        layers: how many.
        dropout: rate after each layer.

    >>> len(hidden_layers(5, 8, 2, dropout=0.1))
    2
    """
    sizes = [inputs, *[width] * layers]
    return nn.Sequential(
        *(
            nn.Sequential(nn.Linear(a, b), nn.LayerNorm(b), nn.ReLU(), nn.Dropout(dropout))
            for a, b in itertools.pairwise(sizes)
        )
    )
