"""What predictors and editors have in common: from graphs to what a trunk says of them."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from weightspace.errors import DataError, ModelError
from weightspace.graph import Batch, MixedGraph, NeuralGraph, Normalisation, canonical_flips
from weightspace.models.canonical_forms import in_forms
from weightspace.models.trunk import Option, Prepared, Trunk
from weightspace.nn.networks import Executor, Networks
from weightspace.nn.normaliser import Normaliser


def own_precision(device: torch.device) -> torch.autocast:
    """Compute in the model's own type, whatever autocast is on around it.

    The passes over all edges write into buffers of one type, and their backward passes read them.
    """
    return torch.autocast(device.type, enabled=False)


MOST_STORED_BYTES = 4 << 30
"""Edge states that predictors store by themselves; more are found again when they are read."""


class Read(NamedTuple):
    """Networks as they were read: their prepared form, the state, and the way back."""

    networks: Networks
    state: Any
    prepared: Prepared


class Metanetwork(nn.Module):
    """A model whose input is neural graphs: a trunk with its normalisation.

    The graphs it is given hold the networks' own weights: it checks and normalises them.

    Args:
        trunk: one paper's model.
        canonical: whether networks are first brought to canonical signs, see
            :func:`weightspace.graph.canonical_signs`.
    """

    def __init__(self, trunk: Trunk, *, canonical: bool = False) -> None:
        super().__init__()
        self.trunk = trunk
        self.canonical = canonical
        needs = trunk.requirements
        self.normaliser = Normaliser(Normalisation.identity(needs.spec, dict(needs.statistics)))

    @property
    def options(self) -> dict[str, Option]:
        """The options of the trunk and its own."""
        return {**self.trunk.options, "canonical": self.canonical}

    def fit_normalisation(self, batch: Batch) -> None:
        """Fit the normalisation, and what the trunk prepares, on the whole training set.

        Raises:
            ModelError: they cannot be read by this model.
            StateError: they are normalised already.
            DataError: a weight is not finite.
        """
        mixed = self._canonical(self._checked(batch)).batch
        self.trunk.fit(mixed)
        self.normaliser.fit(self.trunk.prepare(mixed).batch)

    def read(self, batch: Batch, *, executor: Executor | Literal["auto"] = "stored") -> Read:
        """Read networks.

        Args:
            batch: the networks.
            executor: whether the trunk stores its edge states or finds them again wherever it
                reads them, several times slower but in bounded memory; ``"auto"`` stores at
                most :data:`MOST_STORED_BYTES`. The numbers are the same.

        Raises:
            ModelError: they cannot be read by this model.
            StateError: they are normalised already.
            DataError: a weight is not finite.
        """
        if executor not in ("stored", "deferred", "auto"):
            raise ModelError("executor", expected="stored, deferred or auto", found=repr(executor))
        canonical = self._canonical(self._checked(batch))
        inner = self.trunk.prepare(canonical.batch)
        prepared = Prepared(inner.batch, lambda x: canonical.restore(inner.restore(x)))
        networks = Networks(prepared.batch, self.normaliser, "stored")
        if executor == "auto" and self.trunk.edge_state_bytes(networks) > MOST_STORED_BYTES:
            executor = "deferred"
        if executor == "deferred":
            networks = Networks(prepared.batch, self.normaliser, "deferred")
        return Read(networks, self.trunk(networks), prepared)

    def _checked(self, batch: Batch) -> MixedGraph:
        mixed = MixedGraph.of(batch)
        for part in mixed.parts:
            self.trunk.check(part.spec)
            # before they are brought to another form, in which it could not be seen
            self.normaliser.normalisation.check(part)
            self._check_values(part)
        return mixed

    def _check_values(self, graph: NeuralGraph) -> None:
        tensors = {n: t for n, t in (*graph.nodes.items(), *graph.edges.items()) if t.numel()}
        own = next(self.parameters()).dtype
        for name, tensor in tensors.items():
            if tensor.dtype != own:
                raise ModelError(
                    f"weights of {name}",
                    expected=f"the model's own type {own}",
                    found=str(tensor.dtype),
                    hint="graph.to(torch.float32) or model.double() makes them agree.",
                )
            if not bool(torch.isfinite(tensor).all()):
                raise DataError(
                    f"weights of {name}",
                    expected="finite values",
                    found="NaN or infinity",
                    hint="Run `weightspace zoo verify` to find the networks.",
                )

    def _canonical(self, batch: MixedGraph) -> Prepared:
        if not self.canonical:
            return Prepared(batch, lambda edited: edited)
        return in_forms(batch, lambda _: [canonical_flips])

    @property
    def parameter_count(self) -> int:
        """The number of trained values."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)
