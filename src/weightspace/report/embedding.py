"""Maps of embeddings: points in the plane that keep neighbours together."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Int

from weightspace.errors import DataError

Array = npt.NDArray[Any]

MOST_POINTS = 2000
"""More take minutes, and hide each other on a page."""

_FEWEST_NEIGHBOURED = 8
_PERPLEXITY = 30.0
_SEEDS = 2**32  # scikit-learn takes no larger ones, and none below zero


def mapped_networks(networks: int, *, seed: int, most: int = MOST_POINTS) -> Int[Array, "mapped"]:
    """Which networks a map shows: all, or an even random choice where there are too many.

    >>> mapped_networks(3, seed=0)
    array([0, 1, 2])
    """
    if networks <= most:
        return np.arange(networks)
    chosen = np.random.default_rng(seed % _SEEDS).choice(networks, most, replace=False)
    return np.sort(chosen)


def embedding_map(embeddings: Float[Array, "networks d"], *, seed: int) -> Float[Array, "mapped 2"]:
    """Lay embeddings out in the plane by t-SNE (van der Maaten and Hinton 2008).

    It starts from the first two principal components. Fewer than eight networks have no
    neighbourhoods to keep: they stay at these components.

    Args:
        embeddings: one row a network. Of more than ``MOST_POINTS``, only the rows
            ``mapped_networks(len(embeddings), seed=seed)`` are laid out.
        seed: of the choice and of t-SNE. The same seed gives the same map.

    Raises:
        DataError: not a matrix of finite numbers.

    >>> embedding_map(np.eye(3), seed=0).shape
    (3, 2)
    """
    values = _as_matrix(embeddings)
    values = values[mapped_networks(len(values), seed=seed)]
    components = _principal_components(values)
    distinct = len(np.unique(components, axis=0))
    if distinct < _FEWEST_NEIGHBOURED:
        return components[:, :2]
    from sklearn.manifold import TSNE  # noqa: PLC0415 (slow to import)

    perplexity = min(_PERPLEXITY, (distinct - 1) / 3)
    start = components[:, :2] / components[:, 0].std() * 1e-4  # as scikit-learn's init="pca"
    layout = TSNE(perplexity=perplexity, init=start.astype(np.float32), random_state=seed % _SEEDS)
    return np.asarray(layout.fit_transform(components), dtype=np.float64)


def _as_matrix(embeddings: Float[Array, "networks d"]) -> Float[Array, "networks d"]:
    values = np.asarray(embeddings, dtype=np.float64)
    if values.ndim != 2:
        raise DataError("embeddings", expected="shape [networks, d]", found=f"shape {values.shape}")
    if not np.isfinite(values).all():
        raise DataError(
            "embeddings",
            expected="finite numbers",
            found=f"{(~np.isfinite(values)).any(axis=1).sum()} networks with NaN or infinity",
            hint="Leave these networks out of the map.",
        )
    return values


def _principal_components(values: Float[Array, "n d"]) -> Float[Array, "n k"]:
    """At least 2 and at most 50 components; distances in the rest are noise to t-SNE."""
    from sklearn.decomposition import PCA  # noqa: PLC0415 (slow to import)

    largest = np.abs(values).max(initial=0.0)
    components = np.zeros((len(values), 2))
    if len(values) < 2 or largest == 0:
        return components
    kept = min(50, *values.shape)
    scaled = values / largest  # squares of large numbers must not overflow
    if (scaled == scaled[0]).all():
        return components
    found = PCA(kept, svd_solver="full").fit_transform(scaled)
    return found if kept > 1 else np.hstack([found, np.zeros_like(found)])
