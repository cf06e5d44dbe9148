"""Tables of features with values, for tests that need no networks."""

from __future__ import annotations

import numpy as np

from weightspace.rank import Examples


def table(
    seed: int = 0, networks: int = 60, *, signal: float = 1.0, each: int = 1, features: int = 6
) -> Examples:
    """Networks of ``networks / each`` sources; the values of a source are alike."""
    generator = np.random.default_rng(seed)
    groups = np.arange(networks) // each
    shared = generator.normal(size=(groups.max() + 1, features))[groups]
    rows = shared + 0.1 * generator.normal(size=(networks, features)) * (each > 1)
    noise = generator.normal(size=groups.max() + 1)[groups]
    values = signal * rows[:, 0] + 0.5 * noise + 0.05 * generator.normal(size=networks)
    return Examples(rows, values, groups)
