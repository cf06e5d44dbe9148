"""Giving the tensors of a module new shapes, and the module's attributes with them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

Shapes = Mapping[str, tuple[int, ...]]


def resized(module: nn.Module, shapes: Shapes) -> nn.Module:
    """A copy of a module with tensors of new shapes, newly initialised.

    Every module draws its own initialisation again. A tensor that none of them initialises,
    such as a learned position, is drawn from a normal distribution of its own mean and
    deviation if its shape changes, and kept if not.

    Args:
        module: the network.
        shapes: of the tensors of its state dict; those without keep theirs.
    """
    result = copy.deepcopy(module)
    changed = 0
    for path, part in result.named_modules():
        for name, tensor in [*part._parameters.items(), *part._buffers.items()]:
            full = f"{path}.{name}".strip(".")
            if tensor is not None and tuple(tensor.shape) != shapes.get(full, tuple(tensor.shape)):
                _replace(part, name, tensor, shapes[full])
                changed += 1
    if changed:
        for part in result.modules():
            _adapt(part)
    for part in result.modules():
        reset: Any = getattr(part, "reset_parameters", getattr(part, "_reset_parameters", None))
        if callable(reset):
            reset()
    return result


def _replace(part: nn.Module, name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    values = tensor.detach().float()
    spread = values.std() if values.numel() > 1 else torch.zeros(())
    fresh = (torch.randn(shape) * spread.cpu() + values.mean().cpu()).to(tensor)
    if isinstance(tensor, nn.Parameter):
        setattr(part, name, nn.Parameter(fresh, requires_grad=tensor.requires_grad))
    else:
        setattr(part, name, fresh)


def _adapt(part: nn.Module) -> None:
    """Bring a module's own record of its sizes in line with its tensors."""
    for kind, adapt in _ADAPTED:
        if isinstance(part, kind):
            adapt(part)
            return


def _adapt_convolution(part: _ConvNd) -> None:
    turned = isinstance(part, _ConvTransposeNd)
    outer, inner = part.weight.shape[:2]
    if part.groups > 1 and part.groups == part.in_channels:
        # Depthwise: as many groups as channels.
        part.groups = outer if turned else outer * part.in_channels // part.out_channels
    sizes = (outer, inner * part.groups)
    part.in_channels, part.out_channels = sizes if turned else sizes[::-1]


def _adapt_attention(part: nn.MultiheadAttention) -> None:
    module: Any = part
    same = part.in_proj_weight is not None
    part.embed_dim = part.out_proj.weight.shape[0]
    part.head_dim = part.embed_dim // part.num_heads
    part.kdim = part.embed_dim if same else module.k_proj_weight.shape[1]
    part.vdim = part.embed_dim if same else module.v_proj_weight.shape[1]


def _gates(part: nn.RNNBase) -> int:
    return {"LSTM": 4, "GRU": 3}.get(part.mode, 1)


def _adapt_linear(part: Any) -> None:
    part.out_features, part.in_features = part.weight.shape


def _adapt_batch_norm(part: Any) -> None:
    known = part.weight if part.weight is not None else part.running_mean
    if known is not None:
        part.num_features = len(known)


def _adapt_layer_norm(part: Any) -> None:
    if part.weight is not None:
        part.normalized_shape = tuple(part.weight.shape)


def _adapt_group_norm(part: Any) -> None:
    if part.weight is not None:
        part.num_channels = len(part.weight)


def _adapt_embedding(part: Any) -> None:
    part.num_embeddings, part.embedding_dim = part.weight.shape


def _adapt_recurrence(part: Any) -> None:
    part.hidden_size = part.weight_hh_l0.shape[0] // _gates(part)
    part.input_size = part.weight_ih_l0.shape[1]


def _adapt_cell(part: Any) -> None:
    part.hidden_size, part.input_size = part.weight_hh.shape[1], part.weight_ih.shape[1]


def _adapt_prelu(part: Any) -> None:
    part.num_parameters = len(part.weight)


_ADAPTED: tuple[tuple[Any, Callable[[Any], None]], ...] = (
    (_ConvNd, _adapt_convolution),
    (nn.Linear, _adapt_linear),
    (_NormBase, _adapt_batch_norm),
    ((nn.LayerNorm, nn.RMSNorm), _adapt_layer_norm),
    (nn.GroupNorm, _adapt_group_norm),
    (nn.PReLU, _adapt_prelu),
    (nn.Embedding, _adapt_embedding),
    (nn.MultiheadAttention, _adapt_attention),
    (nn.RNNBase, _adapt_recurrence),
    (nn.RNNCellBase, _adapt_cell),
)
