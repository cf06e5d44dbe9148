"""A layer wired by a graph, computed node by node as the paper writes it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from weightspace.relational.wiring import Wiring


def message_exchange(x: Tensor, weight: Tensor, wiring: Wiring, **options: object) -> Tensor:
    """``y_i = sum_{j in N(i) or j = i} f_ij(x_j)``: linear for matrices, else a convolution."""
    convolve = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}
    outputs = []
    for i, own in enumerate(wiring.channels("out")):
        heard = [
            (j, read)
            for j, read in enumerate(wiring.channels("in"))
            if i == j or wiring.graph.adjacency[i, j]
        ]
        messages = []
        for _, read in heard:
            kernel = weight[own.start : own.stop, read.start : read.stop]
            inputs = x[:, read.start : read.stop]
            if weight.dim() == 2:
                messages.append(inputs @ kernel.T)
            else:
                messages.append(convolve[weight.dim()](inputs, kernel, **options))  # type: ignore[operator]
        outputs.append(torch.stack(messages).sum(0))
    return torch.cat(outputs, 1)
