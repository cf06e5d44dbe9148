"""Hypothesis strategies: random chain architectures and networks of them."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

from weightspace.graph import Activation, GraphSpec, chain_spec

ACTIVATIONS = ["relu", "tanh", "gelu", "silu", "sigmoid", "leaky_relu", "none"]


@st.composite
def chains(draw: st.DrawFn, *, max_width: int = 6, max_hidden: int = 3) -> GraphSpec:
    """A chain of any depth, widths, activations and biases."""
    sizes = draw(st.lists(st.integers(1, max_width), min_size=2, max_size=max_hidden + 2))
    hidden = len(sizes) - 2
    names = st.one_of(st.sampled_from(ACTIVATIONS), st.just(Activation.of("sine", w0=3.0)))
    return chain_spec(
        sizes,
        activations=draw(st.lists(names, min_size=hidden, max_size=hidden)),
        output=draw(st.sampled_from([Activation(), Activation.of("offset", value=0.5)])),
        bias=draw(st.lists(st.booleans(), min_size=hidden + 1, max_size=hidden + 1)),
    )


def random_stacked(
    spec: GraphSpec, networks: int, seed: int, dtype: torch.dtype = torch.float32
) -> dict[str, torch.Tensor]:
    """Networks with normal weights."""
    generator = torch.Generator().manual_seed(seed)
    return {
        p.name: torch.randn(networks, *p.shape, generator=generator, dtype=torch.float64).to(dtype)
        for p in spec.parameters
    }
