"""The ranges of generators' arguments."""

from __future__ import annotations

from weightspace.errors import GraphError


def require_count(name: str, value: int, low: int, high: int | None = None) -> None:
    """Check a whole number.

    Raises:
        GraphError: it is below the lower or above the upper limit.

    >>> require_count("nodes", 3, 1)
    """
    if value < low or (high is not None and value > high):
        limit = f"at least {low}" if high is None else f"a number from {low} to {high}"
        raise GraphError(name, expected=limit, found=str(value))


def require_degree(k: float, n: int) -> None:
    """Check the mean degree of a graph on a ring.

    Raises:
        GraphError: there are fewer than 3 nodes, or k is not from 2 to n.
    """
    require_count("nodes n", n, 3)
    if not 2 <= k <= n:
        raise GraphError(
            "mean degree k",
            expected=f"a value from 2 to {n}, the number of nodes",
            found=f"{k:g}",
            hint="Below 2 a graph on a ring falls apart.",
        )


def require_probability(name: str, value: float) -> None:
    """Check a probability.

    Raises:
        GraphError: it is not from 0 to 1.
    """
    if not 0 <= value <= 1:
        raise GraphError(f"probability {name}", expected="a value from 0 to 1", found=f"{value:g}")
