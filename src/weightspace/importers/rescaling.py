"""Signs and positive scales of neurons that leave the function unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from weightspace.graph.axis import RescalingKind
from weightspace.importers.atoms import Atom, leaves
from weightspace.importers.nesting import alternatives
from weightspace.importers.trace import Trace
from weightspace.importers.value import Value

# Linear in each neuron on its own: a factor passes through.
_LINEAR = frozenset(
    """permute transpose t view _unsafe_view reshape squeeze unsqueeze expand slice select split
    split_with_sizes chunk unbind cat clone contiguous alias detach _to_copy dropout avg_pool1d
    avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d
    adaptive_avg_pool2d adaptive_avg_pool3d mean sum upsample_nearest1d upsample_nearest2d
    upsample_bilinear2d flatten roll neg repeat pixel_shuffle channel_shuffle""".split()  # noqa: SIM905
)
# f(a x) = a f(x) for a > 0.
_HOMOGENEOUS = frozenset(
    """relu leaky_relu prelu abs max_pool1d max_pool2d max_pool3d amax adaptive_max_pool2d
    max_pool2d_with_indices""".split()  # noqa: SIM905
)
# f(-x) = -f(x).
_ODD = frozenset("tanh sin hardtanh softsign asinh atan erf sinh asin tan tanhshrink".split())  # noqa: SIM905


@dataclass(eq=False, slots=True)
class Factor:
    """One factor for every neuron of a leaf, and where it multiplies tensors.

    Args:
        leaf: the neurons.
        uses: (tensor, dimension, power).
        kinds: which factors still leave the function unchanged.
    """

    leaf: Atom
    uses: list[tuple[str, int, int]] = field(default_factory=list)
    kinds: set[RescalingKind] = field(default_factory=lambda: {"sign", "scale"})
    merged: Factor | None = None

    @property
    def root(self) -> Factor:
        """The factor that stands for this one after merges."""
        return self if self.merged is None else self.merged.root


Carried = Mapping[Atom, Factor]


def rescalings(trace: Trace) -> list[Factor]:
    """The factors that a network's function does not notice.

    A layer's neurons may be multiplied by ``q`` and its readers' columns by ``1 / q`` if all
    that lies between passes the factor on: positive ones through positively homogeneous
    functions (ReLU: Neyshabur et al. 2015), signs through odd ones (tanh: Chen et al. 1993;
    sine). Whatever else reads the neurons takes their freedom. The sine has one more symmetry,
    a phase of pi with a flipped sign, which is not linear in the parameters and not among
    these.
    """
    follower = _Follower()
    for value in trace.values:
        if value.kind == "activation":
            follower.follow(value)
    for value in trace.outputs:
        follower.spoil(follower.of(value).values())
    doubled = follower.doubled()
    distinct = dict.fromkeys(factor.root for factor in follower.made)
    return [f for f in distinct if f.kinds and not doubled & {(t, d) for t, d, _ in f.uses}]


class _Follower:
    def __init__(self) -> None:
        self.carried: dict[Value, dict[Atom, Factor]] = {}
        self.made: list[Factor] = []

    def of(self, value: Value) -> dict[Atom, Factor]:
        """The factors on a value's leaves."""
        return {leaf: f.root for leaf, f in self.carried.get(value, {}).items()}

    @staticmethod
    def spoil(factors: Iterable[Factor], *kinds: RescalingKind) -> None:
        """Take kinds of freedom from factors; all kinds if none is named."""
        for factor in factors:
            factor.root.kinds -= set(kinds or ("sign", "scale"))

    def doubled(self) -> set[tuple[str, int]]:
        """Dimensions of tensors that several factors would multiply: shared layers."""
        seen: set[tuple[str, int, Atom]] = set()
        doubled: set[tuple[str, int]] = set()
        for factor in dict.fromkeys(f.root for f in self.made):
            for tensor, dim, _ in factor.uses:
                if (tensor, dim, factor.leaf) in seen:
                    doubled.add((tensor, dim))
                seen.add((tensor, dim, factor.leaf))
        return doubled

    def follow(self, value: Value) -> None:
        """Pass factors on through one operation, or end them there."""
        kind = value.draw.kind
        if kind == "contract":
            self._contract(value)
        elif kind == "norm":
            self._norm(value)
        elif kind == "elementwise":
            self._elementwise(value)
        elif kind == "attention":
            query, key, content = value.draw.operands
            self.spoil(self.of(query).values())
            self.spoil(self.of(key).values())
            self._pass(value, [content])
        elif kind == "pass" and value.op in _LINEAR | _HOMOGENEOUS:
            operands = [v for v in value.draw.operands if v.kind == "activation"]
            if len(operands) < len(value.draw.operands):
                self._end(value)
                return
            if value.op in _HOMOGENEOUS:
                self.spoil((f for v in operands for f in self.of(v).values()), "sign")
            self._pass(value, operands)
        else:
            self._end(value)

    def _end(self, value: Value) -> None:
        for operand in value.draw.operands:
            self.spoil(self.of(operand).values())

    def _pass(self, value: Value, operands: list[Value]) -> None:
        """Factors of leaves that are still there; one leaf's factors must agree."""
        present = {leaf for dim in value.dims for leaf in leaves(dim)}
        result: dict[Atom, Factor] = {}
        for operand in operands:
            for leaf, factor in self.of(operand).items():
                if leaf not in present:
                    self.spoil([factor])
                elif leaf in result:
                    self._merge(result[leaf], factor)
                else:
                    result[leaf] = factor
        for operand in operands:
            bare = {leaf for dim in operand.dims for leaf in leaves(dim)} - set(self.of(operand))
            self.spoil(f for leaf, f in result.items() if leaf in bare)
        self.carried[value] = result

    @staticmethod
    def _merge(one: Factor, two: Factor) -> None:
        one, two = one.root, two.root
        if one is not two:
            one.uses.extend(two.uses)
            one.kinds &= two.kinds
            two.merged = one

    def _new(self, value: Value, leaf: Atom, uses: list[tuple[str, int, int]]) -> None:
        factor = Factor(leaf, uses)
        self.made.append(factor)
        self.carried.setdefault(value, {})[leaf] = factor

    def _contract(self, value: Value) -> None:
        x, weight, *rest = value.draw.operands
        sides = value.draw.details["sides"]
        if not plain(weight) or any(not plain(bias) or bias.rank != 1 for bias in rest):
            self._end(value)
            return
        sources = {leaf for d, s in zip(weight.dims, sides, strict=True) if s == "source"
                   for leaf in leaves(d)}  # fmt: skip
        for leaf, factor in self.of(x).items():
            dims = [
                i
                for i, s in enumerate(sides)
                if s == "source" and leaf in set(leaves(weight.dims[i]))
            ]
            if leaf in sources and len(dims) == 1:
                factor.uses.append((*at(weight, dims[0]), -1))
            else:
                self.spoil([factor])
        rows = [i for i, side in enumerate(sides) if side == "target"]
        if "shared" in sides or len(rows) != 1:
            return
        for leaf in _single_leaves(weight.dims[rows[0]]):
            if leaf in sources and leaf not in self.of(x):
                # A leaf on both ends without a factor of its own: a grouped layer or an input.
                continue
            self._new(value, leaf, [(*at(weight, rows[0]), 1), *((*at(b, 0), 1) for b in rest)])

    def _norm(self, value: Value) -> None:
        self._end(value)
        weight, shifts = value.draw.details["weight"], value.draw.details["shifts"][:1]
        if weight is None or not plain(weight) or weight.rank != 1:
            return
        if any(not plain(shift) or shift.rank != 1 for shift in shifts):
            return
        for leaf in _single_leaves(weight.dims[0]):
            self._new(value, leaf, [(*at(weight, 0), 1), *((*at(s, 0), 1) for s in shifts)])

    def _elementwise(self, value: Value) -> None:
        function = value.draw.details["function"]
        operands = [v for v in value.draw.operands if v.kind == "activation"]
        params = [v for v in value.draw.operands if v.kind == "parameter"]
        constants = [v for v in value.draw.operands if v.kind == "constant"]
        numbers = value.draw.details["numbers"]
        if function == "mul" and len(operands) == 2 and not params:
            self._gate(value, operands)
        elif function == "prelu" and len(operands) == 1:
            self.spoil(self.of(operands[0]).values(), "sign")
            self._pass(value, operands)
        elif params or constants:
            self._end(value)
        elif function in {"add", "sub"} and len(operands) == 2:
            self._pass(value, operands)
        elif len(operands) != 1:
            self._end(value)
        elif function in _LINEAR or (function in {"mul", "div"} and numbers):
            self._pass(value, operands)
        elif function in _HOMOGENEOUS or function in _ODD:
            lost: RescalingKind = "sign" if function in _HOMOGENEOUS else "scale"
            self.spoil(self.of(operands[0]).values(), lost)
            self._pass(value, operands)
        else:
            self._end(value)

    def _gate(self, value: Value, operands: list[Value]) -> None:
        """A product is linear in one side; the other is a coefficient and keeps its size."""
        free = [sum(len(f.kinds) for f in self.of(v).values()) for v in operands]
        kept = operands[1] if free[1] >= free[0] else operands[0]
        other = operands[0] if kept is operands[1] else operands[1]
        self.spoil(self.of(other).values())
        if {leaf for f in self.of(kept).values() for leaf in (f.leaf,)}:
            present = {leaf for dim in value.dims for leaf in leaves(dim)}
            self.carried[value] = {k: f for k, f in self.of(kept).items() if k in present}


def plain(value: Value) -> bool:
    """Whether a value is a tensor of the state dict, its dimensions moved at most."""
    return (
        value.kind == "parameter"
        and len(value.exact) == value.rank
        and all(e is not None and e[2] == 0 for e in value.exact)
        and not value.kept
        and len(value.roots) == 1
    )


def at(value: Value, dim: int) -> tuple[str, int]:
    """The tensor and the dimension of it that a value's dimension is."""
    exact = value.exact[dim]
    assert exact is not None
    return exact[0], exact[1]


def _single_leaves(dim: tuple[Atom, ...]) -> list[Atom]:
    """The leaves of segments that are one leaf and that no other segment repeats."""
    boxes = alternatives(dim)
    found = [box[0] for box in boxes if len(box) == 1]
    return [leaf for leaf in dict.fromkeys(found) if sum(leaf in box for box in boxes) == 1]
