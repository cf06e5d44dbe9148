"""Neural graphs: a spec with the tensors of a batch of networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from weightspace.errors import StateError, counted
from weightspace.graph.binding import Parameter
from weightspace.graph.layout import Frame, read_piece, write_piece
from weightspace.graph.spec import EdgeBlock, GraphSpec, NodeSet

if TYPE_CHECKING:
    import networkx as nx

    from weightspace.graph.graph_symmetry import GraphSymmetry
    from weightspace.graph.normalisation import Normalisation

State = Mapping[str, Tensor]
"""A network's tensors by name; stacked ones have a leading dimension of networks."""


@dataclass(frozen=True, eq=False)
class NeuralGraph:
    """A batch of networks of one spec, as node and edge features.

    Kofinas et al. 2024, section 2: biases are node features, weights edge features.

    Args:
        spec: the structure that all networks of the batch share.
        nodes: ``[batch, neurons, features]`` for each node set.
        edges: ``[batch, groups, targets, sources, features]`` for each block.
        left_out: the stacked tensors that no node or edge holds, kept for the way back.
        extra: further features of nodes by name, such as ``"probes"``, each
            ``{node set: [batch, neurons, channels]}``.
        dtypes: the type of each parameter on the way back, where it is not the spec's.
        statistics: what the features were normalised by, or None.

    >>> from weightspace.graph import chain_spec
    >>> spec = chain_spec([2, 3, 1], activations="relu")
    >>> state = {p.name: torch.zeros(p.shape) for p in spec.parameters}
    >>> graph = NeuralGraph.from_states(spec, [state, state])
    >>> graph.edges["0.weight"].shape
    torch.Size([2, 1, 3, 2, 1])
    """

    spec: GraphSpec
    nodes: Mapping[str, Shaped[Tensor, "batch neurons features"]]
    edges: Mapping[str, Shaped[Tensor, "batch groups targets sources features"]]
    left_out: State = field(default_factory=dict)
    extra: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict)
    dtypes: Mapping[str, torch.dtype] = field(default_factory=dict)
    statistics: Normalisation | None = None

    # -- making --------------------------------------------------------------------------

    @classmethod
    def from_states(cls, spec: GraphSpec, states: Sequence[State]) -> NeuralGraph:
        """Read a graph from state dicts of networks of one spec.

        Raises:
            StateError: there are none, or one does not belong to the spec.
        """
        if not states:
            raise StateError("states", expected="at least one state dict", found="none")
        names = [p.name for p in spec.parameters] + [lo.parameter.name for lo in spec.left_out]
        for state in states:
            check_state(spec, state)
        return cls.from_stacked(
            spec, {name: torch.stack([state[name].detach() for state in states]) for name in names}
        )

    @classmethod
    def from_stacked(cls, spec: GraphSpec, stacked: State) -> NeuralGraph:
        """Read a graph from a state dict whose tensors have a leading batch dimension.

        The graph is differentiable in the tensors.

        Raises:
            StateError: a tensor is missing or of another shape.
        """
        check_state(spec, stacked, batch=True)
        nodes = {
            n.name: _read(spec, Frame.of_nodes(n), n, stacked).flatten(1, 3) for n in spec.node_sets
        }
        edges = {b.name: _read(spec, Frame.of_block(spec, b), b, stacked) for b in spec.blocks}
        left_out = {item.parameter.name: stacked[item.parameter.name] for item in spec.left_out}
        dtypes = {p.name: stacked[p.name].dtype for p in spec.parameters}
        return cls(spec, nodes, edges, left_out, dtypes=dtypes)

    # -- the way back --------------------------------------------------------------------

    def stacked_state(self) -> dict[str, Tensor]:
        """Write the graph back as a state dict with a leading batch dimension, exactly.

        Second names of a tensor are written from the tensor itself: whoever changed the graph's
        features changed them, too.
        """
        stacked = {p.name: self._empty(p) for p in self.spec.parameters}
        for node_set in self.spec.node_sets:
            features = self.nodes[node_set.name][:, None, :, None, :]
            _write(self.spec, Frame.of_nodes(node_set), node_set, features, stacked)
        for block in self.spec.blocks:
            features = self.edges[block.name]
            _write(self.spec, Frame.of_block(self.spec, block), block, features, stacked)
        twins = {i.parameter.name: i.same_as for i in self.spec.left_out if i.same_as is not None}
        return {**stacked, **self.left_out, **{name: stacked[own] for name, own in twins.items()}}

    def _empty(self, parameter: Parameter) -> Tensor:
        dtype = self.dtypes.get(parameter.name, getattr(torch, parameter.dtype))
        return torch.empty((self.batch_size, *parameter.shape), dtype=dtype, device=self.device)

    def state_dict(self, index: int = 0) -> dict[str, Tensor]:
        """Write one network of the batch back as a state dict, exactly."""
        return {name: tensor[index] for name, tensor in self.stacked_state().items()}

    # -- looking and changing ------------------------------------------------------------

    @property
    def batch_size(self) -> int:
        """How many networks the graph holds."""
        return next(iter(self.nodes.values())).shape[0]

    @property
    def symmetry(self) -> GraphSymmetry:
        """The group of changes that leave the networks' functions unchanged."""
        from weightspace.graph.graph_symmetry import GraphSymmetry  # noqa: PLC0415 (mutual)

        return GraphSymmetry(self)

    def to_networkx(self, index: int = 0) -> nx.MultiDiGraph[int]:
        """One network as a networkx graph, see :func:`weightspace.graph.interop.to_networkx`."""
        from weightspace.graph.interop import to_networkx  # noqa: PLC0415 (mutual)

        return to_networkx(self, index)

    def to_pyg(self, index: int = 0) -> Any:
        """One network as a PyTorch Geometric graph, see :mod:`weightspace.graph.interop`."""
        from weightspace.graph.interop import to_pyg  # noqa: PLC0415 (mutual)

        return to_pyg(self, index)

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return next(iter(self.nodes.values())).device

    def __len__(self) -> int:
        return self.batch_size

    def map(self, function: Callable[[Tensor], Tensor]) -> NeuralGraph:
        """Apply a function to every tensor, keeping types and shapes but the batch's."""
        return replace(
            self,
            nodes={name: function(tensor) for name, tensor in self.nodes.items()},
            edges={name: function(tensor) for name, tensor in self.edges.items()},
            left_out={name: function(tensor) for name, tensor in self.left_out.items()},
            extra={
                key: {name: function(tensor) for name, tensor in values.items()}
                for key, values in self.extra.items()
            },
        )

    def to(self, target: torch.device | torch.dtype | str) -> NeuralGraph:
        """Move every tensor to a device, or every floating-point tensor to a type."""
        if not isinstance(target, torch.dtype):
            return self.map(lambda t: t.to(target))
        dtypes = {p.name: target for p in self.spec.parameters}
        moved = self.map(lambda t: t.to(target) if t.is_floating_point() else t)
        return replace(moved, dtypes=dtypes)

    def __getitem__(self, index: slice | Tensor | Sequence[int]) -> NeuralGraph:
        """Take some networks of the batch."""
        if isinstance(index, slice):
            return self.map(lambda tensor: tensor[index])
        chosen = torch.as_tensor(index, dtype=torch.long, device=self.device)
        return self.map(lambda tensor: tensor.index_select(0, chosen))

    def with_features(
        self, nodes: Mapping[str, Tensor] | None = None, edges: Mapping[str, Tensor] | None = None
    ) -> NeuralGraph:
        """Replace node and edge features, keeping the rest."""
        return replace(
            self,
            nodes=self.nodes if nodes is None else nodes,
            edges=self.edges if edges is None else edges,
        )

    def with_extra(self, name: str, values: Mapping[str, Tensor]) -> NeuralGraph:
        """Add further node features under a name."""
        return replace(self, extra={**self.extra, name: values})

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from weightspace.graph.display import spec_html  # noqa: PLC0415 (mutual)

        return spec_html(self.spec, networks=self.batch_size)

    def __repr__(self) -> str:
        return (
            f"NeuralGraph({counted(self.batch_size, 'network')}, {self.spec.node_count} nodes, "
            f"{self.spec.edge_count} edges, spec {self.spec.fingerprint})"
        )


def check_state(spec: GraphSpec, state: State, *, batch: bool = False) -> None:
    """Check that a state dict has every tensor of a spec in the right shape.

    Raises:
        StateError: naming the first tensor that is missing, doubled or of another shape.
    """
    expected = [*spec.parameters, *(item.parameter for item in spec.left_out)]
    sizes: set[int] = set()
    for parameter in expected:
        if parameter.name not in state:
            raise StateError(
                f"state dict, tensor {parameter.name!r}",
                expected=f"a tensor of shape {parameter.shape}",
                found=f"only {', '.join(map(str, state)) or 'nothing'}",
            )
        shape = tuple(state[parameter.name].shape)
        if batch:
            sizes.add(shape[0] if shape else -1)
        if (shape[1:] if batch else shape) != parameter.shape:
            wanted = ("networks", *parameter.shape) if batch else parameter.shape
            raise StateError(
                f"state dict, tensor {parameter.name!r}",
                found=f"shape {shape}",
                expected=f"shape {wanted}",
                hint="The network has another architecture than the spec.",
            )
    unknown = set(state) - {parameter.name for parameter in expected}
    if unknown:
        raise StateError(
            "state dict",
            expected=f"the {len(expected)} tensors of the spec",
            found=f"also {', '.join(sorted(map(str, unknown)))}",
        )
    if len(sizes) > 1:
        raise StateError("stacked state", expected="one batch size", found=f"{sorted(sizes)}")


def _read(spec: GraphSpec, frame: Frame, owner: NodeSet | EdgeBlock, stacked: State) -> Tensor:
    """Read all features of a node set or block: pieces side by side."""
    parts = [read_piece(spec, frame, piece, stacked[piece.parameter]) for piece in owner.pieces]
    if len(parts) == 1:
        return parts[0]
    if parts:
        return torch.cat(parts, dim=-1)
    like = next(iter(stacked.values()))
    dtype = like.dtype if like.is_floating_point() else torch.get_default_dtype()
    width = 0 if isinstance(owner, NodeSet) else 1
    shape = (like.shape[0], *frame.shape(spec), width)
    return torch.ones(shape, dtype=dtype, device=like.device)


def _write(
    spec: GraphSpec,
    frame: Frame,
    owner: NodeSet | EdgeBlock,
    features: Tensor,
    stacked: dict[str, Tensor],
) -> None:
    start = 0
    for piece in owner.pieces:
        part = features[..., start : start + piece.features]
        write_piece(spec, frame, piece, part, stacked[piece.parameter])
        start += piece.features
