"""New tensors: constants whose equal elements are free, ranges and random ones fixed."""

from __future__ import annotations

from weightspace.importers.atoms import Dim, fixed, free
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
