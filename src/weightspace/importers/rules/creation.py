"""New tensors: constants whose equal elements are free, ranges and random ones fixed."""

from __future__ import annotations

from weightspace.importers.atoms import Dim, fixed, free, pin, size_of
from weightspace.importers.call import Call, Result, rule
from weightspace.importers.value import Draw


@rule("full", "zeros", "ones", "full_like", "zeros_like", "ones_like", "empty", "empty_like",
      "scalar_tensor", "new_zeros", "new_ones", "new_full", "new_empty", "empty_permuted",
      "empty_strided", "zero", "new_empty_strided")  # fmt: skip
def uniform(call: Call) -> Result:
    """All elements are equal, so every dimension may be reordered."""
    dims: list[Dim] = [free(n) for n in call.shape]
    return call.make(dims, [], draw=Draw("constant"))


@rule("arange", "linspace", "logspace", "eye", "rand", "randn", "randint", "randperm", "rand_like",
      "randn_like", "hann_window", "hamming_window", "tril_indices", "triu_indices",
      "randint_like", "normal", "normal_functional")  # fmt: skip
def varying(call: Call) -> Result:
    """Elements that differ: every dimension is fixed."""
    return call.make([fixed(n, "a constant") for n in call.shape], [], draw=Draw("constant"))


@rule("bernoulli", "uniform", "exponential", "geometric", "cauchy", "log_normal", "random",
      "poisson", "binomial", "_standard_gamma")  # fmt: skip
def drawn(call: Call) -> Result:
    """Random numbers drawn for each element of a tensor: no two elements get the same."""
    for value in call.tensors:
        for dim in value.dims:
            pin(dim, "random numbers of its own")
    dims = [dim if size_of(dim) == n else fixed(n, "random numbers of its own")
            for dim, n in zip(call.first.dims, call.shape, strict=True)]  # fmt: skip
    return call.make(dims)
