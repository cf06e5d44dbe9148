"""The metanetworks by name, as the command line and saved files know them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from weightspace.errors import ModelError, similar_name
from weightspace.models.dws import DWSNet
from weightspace.models.editor import Editor
from weightspace.models.flat_mlp import FlatMLP
from weightspace.models.flat_mlp_aligned import FlatMLPAligned
from weightspace.models.flat_mlp_augmented import FlatMLPAugmented
from weightspace.models.inr2vec import Inr2Vec
from weightspace.models.neuron_transformer import NeuronTransformer
from weightspace.models.nfn_hnp import NFNHNP
from weightspace.models.nfn_np import NFNNP
from weightspace.models.nft import NFT
from weightspace.models.ng_gnn import NGGNN
from weightspace.models.ng_gnn_linear import NGGNNLinear
from weightspace.models.ng_t import NGT
from weightspace.models.ng_t_edges import NGTEdges
from weightspace.models.option_limits import checked_options
from weightspace.models.predictor import Predictor
from weightspace.models.probe_only import ProbeOnly
from weightspace.models.requirements import Requirements
from weightspace.models.scale_gmn import ScaleGMN
from weightspace.models.stat_nn import StatNN
from weightspace.models.trunk import Option, Trunk


@dataclass(frozen=True)
class Entry:
    """A model with its options.

    Args:
        family: the class.
        options: keyword arguments that differ from the class's own defaults.
        summary: one line for people.
    """

    family: Callable[..., Trunk]
    options: Mapping[str, Option] = field(default_factory=dict)
    summary: str = ""


MODELS: dict[str, Entry] = {
    "ng-gnn-probes": Entry(NGGNN, {"probes": 64}, "NG-GNN that also runs the networks on probes"),
    "ng-gnn": Entry(NGGNN, {}, "NG-GNN on weights alone"),
    "ng-t": Entry(NGT, {}, "relational transformer over all pairs of neurons"),
    "ng-t-probes": Entry(NGT, {"probes": 64}, "NG-T that also runs the networks on probes"),
    "ng-t-edges": Entry(NGTEdges, {}, "NG-T over connections and layers' means, for size"),
    "ng-gnn-linear": Entry(NGGNNLinear, {}, "NG-GNN without edge states, for any size"),
    "dws": Entry(DWSNet, {}, "complete equivariant layers for one architecture"),
    "nfn-np": Entry(NFNNP, {}, "neural functional that reads any architecture"),
    "nfn-hnp": Entry(NFNHNP, {}, "neural functional for one architecture"),
    "nft": Entry(NFT, {}, "attention along rows, columns and layers of weights"),
    "scale-gmn": Entry(ScaleGMN, {}, "message passing that knows neurons' signs and scales"),
    "flat-mlp": Entry(FlatMLP, {}, "MLP on the flattened weights, the baseline"),
    "flat-mlp-augmented": Entry(FlatMLPAugmented, {}, "flat MLP shown random orders of neurons"),
    "flat-mlp-aligned": Entry(FlatMLPAligned, {}, "flat MLP on networks aligned to one of them"),
    "stat-nn": Entry(StatNN, {}, "MLP on the statistics of each layer"),
    "probe-only": Entry(ProbeOnly, {}, "MLP on the networks' answers to learned probes"),
    "inr2vec": Entry(Inr2Vec, {}, "MLP on rows of weights, the largest of each feature"),
    "neuron-transformer": Entry(NeuronTransformer, {}, "attention among neurons with places"),
}
"""All models by name."""


def make_model(
    name: str, requirements: Requirements, *, outputs: int, options: Mapping[str, Option] = {}
) -> Predictor:
    """Make a metanetwork that predicts, by name.

    Args:
        name: a key of :data:`MODELS`.
        requirements: the networks it is to read.
        outputs: the length of its output vector.
        options: keyword arguments of its class, over the entry's own, and ``canonical``.

    Raises:
        ModelError: the name or an option is unknown, or the model cannot read such networks.

    >>> from weightspace.graph import chain_spec
    >>> requirements = Requirements.of([chain_spec([2, 4, 1])])
    >>> make_model("ng-gnn", requirements, outputs=3).options["probes"]
    0
    """
    trunk, canonical = _make_trunk(name, requirements, options)
    return Predictor(trunk, outputs=outputs, canonical=canonical)


def make_editor(
    name: str, requirements: Requirements, *, options: Mapping[str, Option] = {}
) -> Editor:
    """Make a metanetwork that edits, by name; see :func:`make_model`."""
    trunk, canonical = _make_trunk(name, requirements, options)
    return Editor(trunk, canonical=canonical)


def _make_trunk(
    name: str, requirements: Requirements, options: Mapping[str, Option]
) -> tuple[Trunk, bool]:
    if not isinstance(name, str) or name not in MODELS:
        raise ModelError(
            "model",
            expected=f"one of {', '.join(MODELS)}",
            found=repr(name),
            hint=similar_name(str(name), MODELS),
        )
    if not isinstance(requirements, Requirements):
        raise ModelError(
            "requirements",
            expected="what Requirements.of(specs) gives",
            found=type(requirements).__name__,
        )
    entry = MODELS[name]
    own = {**entry.options, **options}
    checked_options({"canonical": own.get("canonical", False)})
    canonical = bool(own.pop("canonical", False))
    try:
        trunk = entry.family(requirements, **own)
    except TypeError as error:
        raise ModelError(
            f"options of {name}",
            expected="options of its class",
            found=f"{dict(options)} ({error})",
        ) from error
    if requirements.spec is not None:
        trunk.check(requirements.spec)
    return trunk, canonical
