"""Finding the widths at which a wired network costs what the dense one does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weightspace.errors import GraphError

Widths = tuple[int, ...]
_WIDEST = 2  # no search steps on beyond so many times the width that the square root asks for
Count = Callable[[Widths], int]


@dataclass(frozen=True)
class Budget:
    """What was asked of a width search, and what it got.

    Args:
        asked: the multiply-adds to match.
        got: those of the network with its matched widths.
        at_given_widths: those of the wired network before its widths were matched.
    """

    asked: int
    got: int
    at_given_widths: int

    @property
    def difference(self) -> int:
        """How many more than asked."""
        return self.got - self.asked

    def __str__(self) -> str:
        share = self.difference / self.asked
        return f"{self.got:,} multiply-adds of {self.asked:,} asked ({share:+.3%})"


def match_widths(
    count: Count, widths: Sequence[int], asked: int, *, lowest: int = 1, rounds: int = 9
) -> tuple[Widths, Budget]:
    """Scale widths together until a network costs at least what is asked, then trim.

    You et al. (2020), as published: the first width is multiplied by the rounded square root
    of what is missing, then stepped by one to the smallest that costs enough; the others keep
    their ratio to it. Then each other width gives up single channels, at most as many as its
    ratio, while the count stays high enough.

    Args:
        count: the multiply-adds of the network of some widths.
        widths: to begin with.
        asked: the multiply-adds to reach.
        lowest: no width may be smaller.
        rounds: how often to multiply before stepping.

    Raises:
        GraphError: even the lowest widths cost more than twice what is asked, or widening
            does not help.

    >>> match_widths(lambda w: w[0] * w[1], (4, 8), 128)[0]
    (8, 16)
    """
    start = tuple(int(width) for width in widths)
    at_start = count(start)
    _check_lowest(count, start, asked, lowest)
    current, cost = start, at_start
    for _ in range(rounds):
        scale = round((asked / cost) ** 0.5, 2)
        scaled = _scaled(current, max(lowest, round(current[0] * scale)), lowest)
        if scaled == current:
            break
        before, (current, cost) = cost, (scaled, count(scaled))
        if scale > 1 and cost <= before:
            raise _too_much(current, cost, asked)
    current = _smallest_enough(count, current, asked, lowest, current[0])
    current = _trimmed(count, current, asked, lowest)
    return current, Budget(asked, count(current), at_start)


def _too_much(widths: Widths, cost: int, asked: int) -> GraphError:
    return GraphError(
        "budget",
        expected=f"at most about {cost:,} multiply-adds, what widths of "
        f"{', '.join(map(str, widths))} cost",
        found=f"{asked:,}",
        hint="Most of the cost is in layers that stay dense.",
    )


def _check_lowest(count: Count, widths: Widths, asked: int, lowest: int) -> None:
    smallest = _scaled(widths, lowest * widths[0] // min(widths), lowest)
    least = count(smallest)
    if least > 2 * asked:
        raise GraphError(
            "budget",
            expected=f"at least {least:,} multiply-adds, what the narrowest network costs "
            f"whose layers all hold {lowest} nodes",
            found=f"{asked:,}",
            hint="Take a graph of fewer nodes or edges, or ask for more.",
        )


def _scaled(widths: Widths, first: int, lowest: int) -> Widths:
    return tuple(max(lowest, round(first * (width / widths[0]))) for width in widths)


def _smallest_enough(count: Count, widths: Widths, asked: int, lowest: int, start: int) -> Widths:
    """Step the first width by one to where the count first reaches what is asked."""
    if count(widths) < asked:
        while (cost := count(widths)) < asked:
            if widths[0] > _WIDEST * start:
                raise _too_much(widths, cost, asked)
            widths = _scaled(widths, widths[0] + 1, lowest)
        return widths
    while widths[0] > lowest:
        below = _scaled(widths, widths[0] - 1, lowest)
        if below == widths or count(below) < asked:
            break
        widths = below
    return widths


def _trimmed(count: Count, widths: Widths, asked: int, lowest: int) -> Widths:
    ratios = [round(width / widths[0]) for width in widths]
    for place in range(1, len(widths)):
        for _ in range(ratios[place]):
            less = (*widths[:place], widths[place] - 1, *widths[place + 1 :])
            if less[place] < lowest or count(less) < asked:
                break
            widths = less
    return widths
