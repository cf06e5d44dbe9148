"""From a drawn sketch to a graph specification."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from weightspace.graph.axis import Axis, Mixing, Rescaling, Role
from weightspace.graph.binding import Factor, LeftOut, Mixed, Parameter, Piece, Span, Weighing
from weightspace.graph.spec import EdgeBlock, GraphSpec, NodeSet
from weightspace.importers.atoms import Atom
from weightspace.importers.exporting import Exported
from weightspace.importers.mixing import Mixture, mixtures
from weightspace.importers.nesting import chains, nested_within
from weightspace.importers.rescaling import Factor as Factored
from weightspace.importers.rescaling import rescalings
from weightspace.importers.sketch import Holding, Key, Sketch
from weightspace.importers.trace import Trace


def assemble(exported: Exported, trace: Trace, sketch: Sketch, buffers: set[str]) -> GraphSpec:
    """Name the axes, and write places, links and tensors down."""
    names = axis_names(sketch)
    parents = {
        leaf: {p for p in above if p in names}
        for leaf, above in nested_within(
            trace.spaces, [v.dims for v in trace.tensors.values()]
        ).items()
        if leaf in names
    }
    within = chains({leaf: above for leaf, above in parents.items() if above})
    axes = tuple(_axis(leaf, name, names, within) for leaf, name in names.items())
    holdings = [p.holdings for p in sketch.places] + [link.holdings for link in sketch.links]
    held = {holding.tensor for own in holdings for holding in own}
    factors = _rescalings(trace, names)
    blends = _mixings(trace, names)
    acts = (factors, blends)
    return GraphSpec(
        axes,
        tuple(
            NodeSet(
                place.name,
                tuple(names[leaf] for leaf in place.leaves),
                place.role,  # type: ignore[arg-type]
                place.activation,
                _pieces(place.holdings, names, acts),
            )
            for place in sketch.places
        ),
        tuple(
            EdgeBlock(
                link.name,
                link.source.name,
                link.target.name,
                link.kind,
                tuple(names[leaf] for leaf in link.shared),
                _pieces(link.holdings, names, acts),
            )
            for link in sketch.links
        ),
        tuple(_parameter(n, t, buffers) for n, t in exported.state.items() if n in held),
        tuple(
            _left_out(exported, trace, _parameter(n, t, buffers), held)
            for n, t in exported.state.items()
            if n not in held
        ),
        tuple(rescaling for rescaling, _ in factors),
        tuple(mixing for mixing, _ in blends),
    )


Factors = list[tuple[Rescaling, Factored]]
Blends = list[tuple[Mixing, Mixture]]


def _mixings(trace: Trace, names: Mapping[Atom, str]) -> Blends:
    """Name the mixings after the axes; features that nothing permutes can still be mixed."""
    result: Blends = []
    for number, mixture in enumerate(mixtures(trace)):
        if mixture.leaf in names:
            name = f"{names[mixture.leaf]}.{mixture.pair}"
            taken = any(mixing.name == name for mixing, _ in result)
            name = f"{name} ({number})" if taken else name
            result.append((Mixing(name, names[mixture.leaf]), mixture))
    return result


def _mixed(holding: Holding, blends: Blends) -> tuple[Mixed, ...]:
    """The mixings that act on a region of a tensor."""
    return tuple(
        Mixed(mixing.name, dim, inverse)
        for mixing, mixture in blends
        for tensor, dim, inverse in mixture.uses
        if tensor == holding.tensor
        and any(part.leaf is mixture.leaf for part in holding.region[dim].parts)
    )


def _rescalings(trace: Trace, names: Mapping[Atom, str]) -> Factors:
    """Name the factors after their axes; an axis can have several."""
    result: Factors = []
    taken: set[str] = set()
    for factor in rescalings(trace):
        if factor.leaf not in names:
            continue
        for kind in sorted(factor.kinds):
            name, count = f"{names[factor.leaf]}.{kind}", 1
            while name in taken:
                count += 1
                name = f"{names[factor.leaf]}.{kind} ({count})"
            taken.add(name)
            result.append((Rescaling(name, names[factor.leaf], kind), factor))
    return result


def _weighings(holding: Holding, factors: Factors) -> tuple[Weighing, ...]:
    """The factors that multiply a region of a tensor."""
    result = []
    for rescaling, factor in factors:
        for tensor, dim, power in factor.acts:
            if tensor == holding.tensor and any(
                part.leaf is factor.leaf and side != "feature"
                for part, side in zip(holding.region[dim].parts, holding.sides[dim], strict=True)
            ):
                result.append(Weighing(rescaling.name, dim, power))
    return tuple(result)


def axis_names(sketch: Sketch) -> dict[Atom, str]:
    """Each leaf is named after the first place that has it."""
    names: dict[Atom, str] = {}
    taken: set[str] = set()
    for place in sketch.places:
        for number, leaf in enumerate(place.leaves):
            if leaf in names:
                continue
            name = place.name if len(place.leaves) == 1 else f"{place.name}.{number}"
            while name in taken:
                name += "'"
            names[leaf] = name
            taken.add(name)
    return names


def _axis(leaf: Atom, name: str, names: Mapping[Atom, str], within: Mapping[Atom, Atom]) -> Axis:
    role: Role = leaf.role if leaf.role in ("input", "output") else "hidden"  # type: ignore[assignment]
    permutes = role == "hidden" and not leaf.pin
    parent = within.get(leaf)
    reason = "" if permutes or role != "hidden" else leaf.pin
    return Axis(name, leaf.size, role, permutes, None if parent is None else names[parent], reason)


def _pieces(
    holdings: list[Holding], names: Mapping[Atom, str], acts: tuple[Factors, Blends]
) -> tuple[Piece, ...]:
    return tuple(
        Piece(
            holding.tensor,
            tuple(
                Span(
                    tuple(
                        Factor(
                            part.size,
                            None if side == "feature" or part.leaf is None else names[part.leaf],
                            side,
                            part.start,
                            None if part.extent == part.size else part.extent,
                        )
                        for part, side in zip(stretch.parts, sides, strict=True)
                    ),
                    stretch.start,
                )
                for stretch, sides in zip(holding.region, holding.sides, strict=True)
            ),
            _weighings(holding, acts[0]),
            _mixed(holding, acts[1]),
        )
        for holding in holdings
    )


def _parameter(name: str, tensor: Tensor, buffers: set[str]) -> Parameter:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Parameter(name, tuple(tensor.shape), dtype, name in buffers)


def _left_out(exported: Exported, trace: Trace, parameter: Parameter, held: set[str]) -> LeftOut:
    twin = exported.twins.get(parameter.name)
    if twin is not None and twin in held:
        return LeftOut(parameter, f"the same tensor as {twin}", twin)
    if parameter.dtype.startswith("complex"):
        return LeftOut(parameter, "complex numbers, which no node or edge holds")
    if parameter.dtype.startswith(("int", "uint", "bool")):
        return LeftOut(parameter, "integers, which count or point")
    return LeftOut(parameter, "not used by the function of the example inputs")


def key_names(key: Key, names: Mapping[Atom, str]) -> tuple[str, ...]:
    """The names of some leaves."""
    return tuple(names[leaf] for leaf in key)
