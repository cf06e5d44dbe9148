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


def resized(
    module: nn.Module, shapes: Shapes, *, groups: Mapping[str, int] | None = None
) -> nn.Module:
    """A copy of a module with tensors of new shapes, newly initialised.

    Every module draws its own initialisation again. A tensor that none of them initialises,
    such as a learned position, is drawn from a normal distribution of its own mean and
    deviation if its shape changes, and kept if not. Tied tensors stay tied.

    Args:
        module: the network.
        shapes: of the tensors of its state dict; those without keep theirs.
        groups: by path, how many groups or heads a convolution, group norm or attention has
            then; what they have if not given, and as many as channels if depthwise.
    """
    result = copy.deepcopy(module)
    changed: dict[int, tuple[Tensor, Tensor]] = {}
    for path, part in result.named_modules():
        for name, tensor in [*part._parameters.items(), *part._buffers.items()]:
            full = f"{path}.{name}".strip(".")
            if tensor is not None and tuple(tensor.shape) != shapes.get(full, tuple(tensor.shape)):
                if id(tensor) not in changed:
                    changed[id(tensor)] = tensor, _replacement(tensor, shapes[full])
                setattr(part, name, changed[id(tensor)][1])
    if changed:
        for path, part in result.named_modules():
            _adapt(part)
            if groups is not None and path in groups:
                _regroup(part, groups[path])
    for part in result.modules():
        reset: Any = getattr(part, "reset_parameters", getattr(part, "_reset_parameters", None))
        if callable(reset):
            reset()
    return result


def _replacement(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    values = tensor.detach().float()
    spread = values.std() if values.numel() > 1 else torch.zeros(())
    fresh = (torch.randn(shape) * spread.cpu() + values.mean().cpu()).to(tensor)
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(fresh, requires_grad=tensor.requires_grad)
    return fresh


def _regroup(part: nn.Module, number: int) -> None:
    """Give a module another number of groups or heads."""
    if isinstance(part, _ConvNd):
        part.groups = number
        _count_channels(part)
    elif isinstance(part, nn.GroupNorm):
        part.num_groups = number
    elif isinstance(part, nn.MultiheadAttention):
        part.num_heads = number
        part.head_dim = part.embed_dim // number


def _adapt(part: nn.Module) -> None:
    """Bring a module's own record of its sizes in line with its tensors."""
    for kind, adapt in _ADAPTED:
        if isinstance(part, kind):
            adapt(part)
            return


def _adapt_convolution(part: _ConvNd) -> None:
    turned = isinstance(part, _ConvTransposeNd)
    outer = part.weight.shape[0]
    if part.groups > 1 and part.groups == part.in_channels:
        # Depthwise: as many groups as channels.
        part.groups = outer if turned else outer * part.in_channels // part.out_channels
    _count_channels(part)


def _count_channels(part: _ConvNd) -> None:
    outer, inner = part.weight.shape[:2]
    sizes = (outer, inner * part.groups)
    turned = isinstance(part, _ConvTransposeNd)
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


def _adapt_bilinear(part: Any) -> None:
    part.out_features, part.in1_features, part.in2_features = part.weight.shape


def _adapt_recurrence(part: Any) -> None:
    part.hidden_size = part.weight_hh_l0.shape[0] // _gates(part)
    if part.proj_size:
        part.proj_size = part.weight_hr_l0.shape[0]
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
    ((nn.Embedding, nn.EmbeddingBag), _adapt_embedding),
    (nn.Bilinear, _adapt_bilinear),
    (nn.MultiheadAttention, _adapt_attention),
    (nn.RNNBase, _adapt_recurrence),
    (nn.RNNCellBase, _adapt_cell),
)
