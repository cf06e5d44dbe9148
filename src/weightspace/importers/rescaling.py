"""Signs and positive scales of neurons that leave the function unchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from weightspace.graph.axis import RescalingKind
from weightspace.importers.atoms import Atom, leaves
from weightspace.importers.nesting import alternatives
from weightspace.importers.reading import Readings, at, plain, readings
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


Use = tuple[Value, str, int, int]


@dataclass(eq=False, slots=True)
class Factor:
    """One factor for every neuron of a leaf, and where it multiplies tensors.

    Args:
        leaf: the neurons.
        uses: (reading, tensor, dimension, power): what one reading of a tensor needs.
        kinds: which factors still leave the function unchanged.
        acts: (tensor, dimension, power): how it acts, once all readings agree.
    """

    leaf: Atom
    uses: list[Use] = field(default_factory=list)
    kinds: set[RescalingKind] = field(default_factory=lambda: {"sign", "scale"})
    merged: Factor | None = None
    acts: list[tuple[str, int, int]] = field(default_factory=list)

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
    factors = list(dict.fromkeys(factor.root for factor in follower.made))
    _settle(factors, readings(trace))
    return [factor for factor in factors if factor.kinds]


def _settle(factors: Iterable[Factor], reads: Readings) -> None:
    """Take the freedom of factors that one tensor's readings disagree about; write the rest down.

    A tensor that is read twice (tied weights, a layer called again, a penalty on weights) is
    multiplied once, so every reading of it must need the same.
    """
    touching: dict[str, list[Factor]] = {}
    for factor in factors:
        for tensor in dict.fromkeys(use[1] for use in factor.uses):
            touching.setdefault(tensor, []).append(factor)
    kinds: tuple[RescalingKind, ...] = ("sign", "scale")
    changed = True
    while changed:
        changed = False
        for tensor, own in touching.items():
            for kind in kinds:
                free = [factor for factor in own if kind in factor.kinds]
                needs = [_need(free, tensor, reading, kind) for reading in reads[tensor]]
                if any(need != needs[0] for need in needs):
                    _Follower.spoil(free, kind)
                    changed = True
    for factor in factors:
        for tensor in dict.fromkeys(use[1] for use in factor.uses):
            first = reads[tensor][0]
            need = _need([factor], tensor, first, "scale" if "scale" in factor.kinds else "sign")
            factor.acts.extend((tensor, dim, power) for (dim, _), power in need.items())


def _need(
    factors: Iterable[Factor], tensor: str, reading: Value | None, kind: RescalingKind
) -> dict[tuple[int, int], int]:
    """The power of each factor along each dimension that one reading of a tensor needs."""
    powers: Counter[tuple[int, int]] = Counter()
    for factor in factors:
        for read, name, dim, power in factor.uses:
            if read is reading and name == tensor:
                powers[dim, id(factor)] += power
    # two flips are none
    return {key: p % 2 if kind == "sign" else p for key, p in powers.items()
            if (p % 2 if kind == "sign" else p)}  # fmt: skip


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
            query, key, content, *masks = value.draw.operands
            for operand in (query, key, *masks):
                self.spoil(self.of(operand).values())
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
        factor = Factor(leaf, [(value, *use) for use in uses])
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
            # A depthwise convolution has its channels on its rows alone.
            side = "target" if leaf not in sources and "conv" in value.op else "source"
            dims = [
                i for i, s in enumerate(sides) if s == side and leaf in set(leaves(weight.dims[i]))
            ]
            if len(dims) == 1:
                factor.uses.append((value, *at(weight, dims[0]), -1))
            else:
                self.spoil([factor])
        rows = [i for i, side in enumerate(sides) if side == "target"]
        if "shared" in sides or len(rows) != 1:
            return
        for leaf in _single_leaves(weight.dims[rows[0]]):
            if leaf in sources and leaf not in self.of(x):
                # A leaf on both ends without a factor of its own: a grouped layer or an input.
                continue
            if any(leaf not in set(leaves(bias.dims[0])) for bias in rest):
                continue
            self._new(value, leaf, [(*at(weight, rows[0]), 1), *((*at(b, 0), 1) for b in rest)])

    def _norm(self, value: Value) -> None:
        self._end(value)
        weight, bias = value.draw.details["weight"], value.draw.details["bias"]
        if weight is None or not plain(weight) or weight.rank != 1:
            return
        shifts = [] if bias is None else [bias]
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
            for operand in operands:  # one that is the same for all neurons has no factor of each
                own = {leaf for dim in operand.dims for leaf in leaves(dim)}
                self.spoil(f for leaf, f in self.of(value).items() if leaf not in own)
        elif len(operands) != 1:
            self._end(value)
        elif function in _LINEAR or (function in {"mul", "div"} and numbers):
            self._pass(value, operands)
        elif function == "hardtanh" and numbers and numbers[0] != -numbers[-1]:
            self._end(value)
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
        present = {leaf for dim in value.dims for leaf in leaves(dim)}
        self.spoil(f for leaf, f in self.of(kept).items() if leaf not in present)
        self.carried[value] = {leaf: f for leaf, f in self.of(kept).items() if leaf in present}


def _single_leaves(dim: tuple[Atom, ...]) -> list[Atom]:
    """The leaves of segments that are one leaf and that no other segment repeats."""
    boxes = alternatives(dim)
    found = [box[0] for box in boxes if len(box) == 1]
    return [leaf for leaf in dict.fromkeys(found) if sum(leaf in box for box in boxes) == 1]
