"""Linear and convolutional layers wired by a graph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.utils import _pair, _single, _triple

from weightspace.errors import GraphError, StateError
from weightspace.relational.execution import AUTO, Choice, wired_linear
from weightspace.relational.graph import RelationalGraph
from weightspace.relational.grouped_conv import wired_convolution
from weightspace.relational.wiring import Wiring

Initialisation = Literal["fan_in", "published"]


class WiredLayer(nn.Module):
    """What relational layers share: a wiring, its mask, and a state that knows it.

    The state dict holds, beside weight and bias, the graph's adjacency with self-edges as
    ``wiring``, so that weights are never loaded into another wiring; a state without it, such
    as a dense layer's, loads too. The mask follows from it and is not stored. Weights outside
    the wiring are zero from the start and after loading, get no gradient, and have no effect
    whatever is written into them.
    """

    weight: Tensor
    bias: Any
    mask: Tensor
    wiring: Tensor
    wiring_: Wiring
    plan: Choice

    def _wire(self, wiring: Wiring, plan: Choice, init: Initialisation) -> None:
        self.wiring_ = wiring
        self.plan = plan
        device = self.weight.device
        self.register_buffer("wiring", torch.from_numpy(wiring.joined.copy()).to(device))
        mask = _mask(wiring, self.weight)
        self.register_buffer(
            "mask", mask.view(*mask.shape, *[1] * (self.weight.dim() - 2)), persistent=False
        )
        initialise(self, init)

    @property
    def graph(self) -> RelationalGraph:
        """The graph on the layer's nodes."""
        return self.wiring_.graph

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        found = state_dict.get(f"{prefix}wiring")
        if found is None:
            state_dict[f"{prefix}wiring"] = self.wiring
        elif not torch.equal(found.to(self.wiring), self.wiring):
            raise StateError(
                f"{prefix}wiring",
                expected=f"the wiring of this layer, {self.graph!r}",
                found="weights of another graph",
                hint="Build the layer with the graph that the weights were trained in.",
            )
        super()._load_from_state_dict(state_dict, prefix, *args)
        with torch.no_grad():
            self.weight.mul_(self.mask)

    def extra_repr(self) -> str:
        """Sizes, and how much of them is wired."""
        text: str = super().extra_repr()
        return f"{text}, nodes={self.graph.n}, density={self.wiring_.density:.3f}"


def initialise(layer: WiredLayer, how: Initialisation = "fan_in") -> None:
    """Draw a wired layer's weights.

    Args:
        layer: whose weight and bias are set.
        how: ``"fan_in"`` draws as PyTorch does, ``U(-1/sqrt(f), 1/sqrt(f))``, with f the
            number of inputs that a neuron really has; ``"published"`` draws as You et al. did,
            linear ``N(0, 0.01^2)``, convolutions ``N(0, 2 / (kernel * out * density))``,
            biases 0.

    Raises:
        GraphError: there is no initialisation of this name.
    """
    weight, bias = layer.weight, layer.bias
    kernel = weight[0, 0].numel()
    with torch.no_grad():
        if how == "fan_in":
            fan_in = layer.mask.flatten(1).sum(1) * kernel
            bound = (1 / fan_in.sqrt()).view(-1, *[1] * (weight.dim() - 1))
            weight.uniform_(-1, 1).mul_(bound)
            if bias is not None:
                bias.uniform_(-1, 1).mul_(bound.flatten())
        elif how == "published":
            fan_out = kernel * layer.wiring_.width_out * layer.wiring_.density
            weight.normal_(0, 0.01 if weight.dim() == 2 else math.sqrt(2 / fan_out))
            if bias is not None:
                bias.zero_()
        else:
            raise GraphError("init", expected="'fan_in' or 'published'", found=repr(how))
        weight.mul_(layer.mask)


class RelationalLinear(WiredLayer, nn.Linear):
    """A linear layer that is one round of message exchange on a graph.

    You et al., Graph Structure of Neural Networks (2020), section 2.2:
    ``y_i = b_i + sum_{j in N(i)} W_ij x_j`` with vectors ``x_j`` and ``y_i`` for the nodes.

    Args:
        in_features: the number of input features.
        out_features: the number of output features.
        graph: on the nodes, or a wiring with sizes of its own.
        bias: whether there is one.
        plan: how the product is computed; measured if not given.
        init: see :func:`initialise`.
        device: of the parameters.
        dtype: of the parameters.

    Raises:
        GraphError: the graph has more nodes than there are features on one side.

    >>> from weightspace.relational import ring
    >>> RelationalLinear(16, 8, ring(8))(torch.zeros(2, 16)).shape
    torch.Size([2, 8])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        graph: RelationalGraph | Wiring,
        *,
        bias: bool = True,
        plan: Choice = AUTO,
        init: Initialisation = "fan_in",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        wiring = _wiring(graph, in_features, out_features)
        nn.Linear.__init__(self, in_features, out_features, bias, device, dtype)
        self._wire(wiring, plan, init)

    def forward(self, input: Tensor) -> Tensor:
        """Map the last dimension."""
        return wired_linear(
            input, self.weight, self.bias, self.mask, wiring=self.wiring_, plan=self.plan
        )


class _RelationalConv(WiredLayer, _ConvNd):
    """A convolution whose channels exchange messages on a graph: ``W_ij`` are kernels."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        graph: RelationalGraph | Wiring,
        kernel_size: int | Sequence[int],
        *,
        stride: int | Sequence[int] = 1,
        padding: str | int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        bias: bool = True,
        padding_mode: Any = "zeros",
        plan: Choice = AUTO,
        init: Initialisation = "fan_in",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        wiring = _wiring(graph, in_channels, out_channels)
        tupled = _TUPLES[self._dimensions]
        _ConvNd.__init__(
            self,
            in_channels,
            out_channels,
            tupled(kernel_size),
            tupled(stride),
            padding if isinstance(padding, str) else tupled(padding),
            tupled(dilation),
            False,
            tupled(0),
            1,
            bias,
            padding_mode,
            device,
            dtype,
        )
        self._wire(wiring, plan, init)

    _dimensions: int

    def forward(self, input: Tensor) -> Tensor:
        """Convolve."""
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = (0,) * self._dimensions
        return wired_convolution(
            input,
            self.weight,
            self.bias,
            self.mask,
            wiring=self.wiring_,
            plan=self.plan,
            stride=self.stride,
            padding=padding,
            dilation=self.dilation,
        )


class RelationalConv1d(_RelationalConv):
    """A one-dimensional convolution wired by a graph; arguments as :class:`RelationalConv2d`."""

    _dimensions = 1


class RelationalConv2d(_RelationalConv):
    """A two-dimensional convolution wired by a graph.

    You et al., Graph Structure of Neural Networks (2020), section 2.3:
    ``Y_i = sum_{j in N(i)} W_ij * X_j`` with groups of channels ``X_j`` and ``Y_i``.

    Args:
        in_channels: the number of input channels.
        out_channels: the number of output channels.
        graph: on the nodes, or a wiring with sizes of its own.
        kernel_size: as in PyTorch, and so are stride, padding, dilation and padding_mode.
        bias: whether there is one.
        plan: how the product is computed; measured if not given.
        init: see :func:`initialise`.

    Raises:
        GraphError: the graph has more nodes than there are channels on one side.

    >>> from weightspace.relational import ring
    >>> layer = RelationalConv2d(8, 16, ring(8), 3, stride=2, padding=1)
    >>> layer(torch.zeros(2, 8, 6, 6)).shape
    torch.Size([2, 16, 3, 3])
    """

    _dimensions = 2


class RelationalConv3d(_RelationalConv):
    """A three-dimensional convolution wired by a graph; arguments as :class:`RelationalConv2d`."""

    _dimensions = 3


def _mask(wiring: Wiring, weight: Tensor) -> Tensor:
    """The mask in a weight's type; layers without memory have masks without."""
    if weight.is_meta:
        return weight.new_empty(wiring.width_out, wiring.width_in)
    return wiring.mask().to(weight)


_TUPLES: Mapping[int, Any] = {1: _single, 2: _pair, 3: _triple}


def _wiring(graph: RelationalGraph | Wiring, width_in: int, width_out: int) -> Wiring:
    if isinstance(graph, RelationalGraph):
        return Wiring.between(graph, width_in, width_out)
    if (graph.width_in, graph.width_out) != (width_in, width_out):
        raise GraphError(
            "wiring",
            expected=f"{width_in} input and {width_out} output channels",
            found=f"{graph.width_in} and {graph.width_out}",
        )
    return graph
