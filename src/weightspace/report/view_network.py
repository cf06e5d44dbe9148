"""The content of the page that shows one network."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.graph import GraphSpec, NeuralGraph, State
from weightspace.report.view_content import View
from weightspace.report.view_encoding import Array
from weightspace.report.view_findings import MARKS, findings
from weightspace.report.view_maps import MapShape, at_home, best_side, encode_map, target_rows
from weightspace.report.view_observing import Observation

CHANNELS = (("weight", "weights"), ("gradient", "gradients"))
FEATURES = (
    ("incoming", "norm of incoming weights"),
    ("outgoing", "norm of outgoing weights"),
    ("bias", "bias or first feature"),
    ("gradient", "norm of incoming gradients"),
    ("mean", "mean activation"),
    ("spread", "spread of activations"),
    ("active", "share of activations that are not zero"),
)

Numbers = Mapping[str, dict[str, Array]]


def view_network(
    spec: GraphSpec,
    state: State,
    *,
    title: str,
    observation: Observation | None = None,
    why_not: str = "",
    coupled: Collection[str] = (),
) -> View:
    """Collect what the page shows of a network.

    Args:
        spec: its structure.
        state: its tensors.
        title: what it is called.
        observation: what it did on inputs, if it was run.
        why_not: else, why it was not.
        coupled: axes whose neurons are read together, as in
            :func:`weightspace.align.dead_neurons`.

    Raises:
        StateError: the network is not of the spec.
    """
    gradient = {} if observation is None else observation.gradient
    graph = NeuralGraph.from_states(spec, [state])
    slopes = _gradient_graph(spec, state, gradient)
    return View(
        title=title,
        facts=network_facts(spec),
        notes=_notes(observation, why_not),
        spec=spec,
        channels=CHANNELS if slopes else CHANNELS[:1],
        features=FEATURES,
        maps=_maps(graph, slopes),
        neurons=_numbers(graph, slopes, observation),
        marks=MARKS,
        findings=findings(spec, state, observation, coupled),
        tables=left_out_table(spec),
    )


def network_facts(spec: GraphSpec) -> list[tuple[str, str]]:
    """How large a network is."""
    trained = sum(p.numel for p in spec.parameters if not p.buffer)
    return [
        ("neurons", f"{spec.node_count:,}"),
        ("connections", f"{spec.edge_count:,}"),
        ("trained values", f"{trained:,}"),
        ("layers", f"{len(spec.node_sets):,}"),
    ]


def left_out_table(
    spec: GraphSpec,
) -> list[tuple[str, Sequence[str], Sequence[Sequence[str]]]]:
    """The tensors that the graph does not hold, if there are any."""
    rows = [[i.parameter.name, str(list(i.parameter.shape)), i.reason] for i in spec.left_out]
    return (
        [("Tensors that are not in the graph", ("tensor", "shape", "reason"), rows)] if rows else []
    )


def statistics(values: Tensor) -> dict[str, float | int]:
    """A block's values in a few numbers, as they are in the tensors."""
    flat = values.detach().double().flatten()
    return {
        "smallest": float(flat.min()),
        "largest": float(flat.max()),
        "mean": float(flat.mean()),
        "spread": float(flat.std(unbiased=False)),
        "norm": float(torch.linalg.vector_norm(flat)),
        "zeros": int((flat == 0).sum()),
        "count": flat.numel(),
    }


def block_norms(graph: NeuralGraph, side: str) -> dict[str, Array]:
    """For each node set the norm of all weights that enter, or leave, each neuron."""
    spec, sums = graph.spec, dict[str, Tensor]()
    for block in spec.blocks:
        if not block.pieces:
            continue
        end = block.target if side == "incoming" else block.source
        squares = graph.edges[block.name][0].double().square().sum(-1)
        own = squares.sum(2) if side == "incoming" else squares.sum(1)
        home = at_home(spec, block, end, own.flatten())
        sums[end] = sums[end] + home if end in sums else home
    return {name: total.sqrt().numpy() for name, total in sums.items()}


def _maps(graph: NeuralGraph, slopes: NeuralGraph | None) -> dict[str, dict[str, Any]]:
    spec = graph.spec
    blocks = [block for block in spec.blocks if block.pieces]
    shapes = [MapShape.of(block, spec.shape_of(block)) for block in blocks]
    side = best_side(shapes)
    found: dict[str, dict[str, Any]] = {}
    for block, shape in zip(blocks, shapes, strict=True):
        edges = graph.edges[block.name][0]
        own = {"weight": encode_map(target_rows(spec, block, edges), shape, side)}
        if slopes is not None:
            rows = target_rows(spec, block, slopes.edges[block.name][0])
            own["gradient"] = encode_map(rows, shape, side)
        found[block.name] = {"maps": own, "statistics": statistics(edges)}
    return found


def _numbers(
    graph: NeuralGraph, slopes: NeuralGraph | None, observation: Observation | None
) -> Numbers:
    spec = graph.spec
    found: dict[str, dict[str, Array]] = {n.name: {} for n in spec.node_sets}
    for side in ("incoming", "outgoing"):
        for name, norms in block_norms(graph, side).items():
            found[name][side] = norms
    if slopes is not None:
        for name, norms in block_norms(slopes, "incoming").items():
            found[name]["gradient"] = norms
    for node_set in spec.node_sets:
        if node_set.features:
            found[node_set.name]["bias"] = _first(graph.nodes[node_set.name])
    if observation is not None:
        for axes, numbers in observation.activations.items():
            # an axis's values are those of the last place where it stands
            places = [n.name for n in spec.node_sets if n.axes == axes]
            if places:
                found[places[-1]].update(numbers)
    return found


def _first(features: Float[Tensor, "batch neurons features"]) -> Array:
    values: Array = features[0, :, 0].detach().float().numpy()
    return values


def _gradient_graph(
    spec: GraphSpec, state: State, gradient: Mapping[str, Tensor]
) -> NeuralGraph | None:
    if not gradient:
        return None
    rest = {name: torch.zeros_like(t) for name, t in state.items() if name not in gradient}
    return NeuralGraph.from_states(spec, [{**rest, **gradient}])


def _notes(observation: Observation | None, why_not: str) -> list[str]:
    if observation is None:
        return [f"Activations and gradients are not shown: {why_not}."] if why_not else []
    notes = [
        f"Activations are those on {observation.inputs}; of an axis that stands at several "
        "places they are shown at the last one."
    ]
    if observation.loss:
        notes.append(f"Gradients are those of {observation.loss} on the same inputs.")
    return notes
