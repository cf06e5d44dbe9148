"""Weighted sums: matrix products and Einstein sums."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from weightspace.importers.onnx.operation import Function, Operation, operator


@operator("MatMul")
def matmul(op: Operation) -> Function:
    """A product over broadcast leading dimensions."""
    return torch.matmul


@operator("Linear")
def linear(op: Operation) -> Function:
    """``x W + b``, a product and a sum that belong together; not an operation of files."""
    return lambda x, weight, bias: F.linear(x, weight.t(), bias)


@operator("Gemm")
def gemm(op: Operation) -> Function:
    """``alpha A' B' + beta C``, a linear layer where C is a bias."""
    alpha = float(op.attributes.get("alpha", 1.0))
    beta = float(op.attributes.get("beta", 1.0))
    flip_a, flip_b = bool(op.attributes.get("transA", 0)), bool(op.attributes.get("transB", 0))
    columns = op.shape(1)[0 if flip_b else 1]
    added = op.has(2) and beta != 0.0
    linear = alpha == 1.0 and (not added or (beta == 1.0 and op.shape(2) == (columns,)))

    def run(a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
        a = a.t() if flip_a else a
        weight = b if flip_b else b.t()
        if linear:
            return F.linear(a, weight, c if added else None)
        product = F.linear(a, weight)
        product = product if alpha == 1.0 else product * alpha
        if not added or c is None:
            return product
        return product + (c if beta == 1.0 else c * beta)

    return run


@operator("Einsum")
def einsum(op: Operation) -> Function:
    """A sum of products, as its equation says."""
    equation = str(op.attributes.get("equation", ""))
    return lambda *values: torch.einsum(equation, *values)
