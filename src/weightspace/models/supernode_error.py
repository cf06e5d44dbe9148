"""How much of a network supernodes lose."""

from __future__ import annotations

import torch

from weightspace.errors import ModelError
from weightspace.graph import Batch
from weightspace.models.ng_gnn_linear import NGGNNLinear
from weightspace.models.predictor import Predictor


@torch.no_grad()
def supernode_error(model: Predictor, batch: Batch, *, supernodes: int) -> float:
    """The relative error of an embedding that is read with supernodes.

    The distance of both embeddings over the length of the exact one.

    Args:
        model: with a trunk of :class:`~weightspace.models.NGGNNLinear`.
        batch: one network.
        supernodes: the most of a node set.

    Raises:
        ModelError: the model has another trunk, or there are several networks.
    """
    trunk = model.trunk
    if not isinstance(trunk, NGGNNLinear):
        raise ModelError("model", expected="ng-gnn-linear", found=type(trunk).__name__)
    networks = model.read(batch).networks
    exact, coarse = (
        model.readout(networks, trunk.pass_messages(networks, supernodes=count))
        for count in (0, supernodes)
    )
    return float((coarse - exact).norm() / exact.norm())
