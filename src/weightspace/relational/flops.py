"""Counting the multiply-adds of a network, as the published experiments count them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from weightspace.errors import ModelError
from weightspace.relational.layers import WiredLayer
from weightspace.relational.masking import masked_connections

Inputs = Tensor | tuple[Any, ...] | Mapping[str, Any]


@dataclass(frozen=True)
class FlopCount:
    """The multiply-adds of one pass.

    Args:
        layers: of each layer, by its name in the network.
        uses: how often each layer's weights are applied in the pass: the number of inputs of a
            linear layer, of places that a convolution is evaluated at.
    """

    layers: Mapping[str, int]
    uses: Mapping[str, int]

    @property
    def total(self) -> int:
        """The multiply-adds of all layers."""
        return sum(self.layers.values())


def count_flops(module: nn.Module, inputs: Inputs) -> FlopCount:
    """Count the multiply-adds of linear, convolutional, attention and recurrent weights.

    As You et al. (2020) count: one for every weight and every place it is applied at; a wired
    layer counts the weights of its wiring, ``in * out * density``, which is a whole number.
    Biases, norms, activations, pooling and the products of queries with keys count nothing.

    Args:
        module: the network; it runs without memory or, if that fails, in evaluation mode.
        inputs: a tensor, a tuple or a mapping of arguments; a batch of one gives the count of
            one example.

    Raises:
        ModelError: the network does not run on the inputs.

    >>> net = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> count_flops(net, torch.zeros(1, 8)).total
    40
    """
    layers: dict[str, int] = {}
    uses: dict[str, int] = {}

    def forget() -> None:
        layers.clear()
        uses.clear()

    def watch(name: str, part: nn.Module) -> Any:
        def note(_: nn.Module, given: Any, kwargs: Any, result: Any) -> None:
            for suffix, weight, times in _used(part, given, kwargs, result):
                key = f"{name}.{suffix}".strip(".")
                layers[key] = layers.get(key, 0) + weight * times
                uses[key] = uses.get(key, 0) + times

        return part.register_forward_hook(note, with_kwargs=True)

    handles = [watch(name, part) for name, part in module.named_modules() if _counts(part)]
    try:
        with _evaluating(module), torch.no_grad():
            _run(module, inputs, forget)
    finally:
        for handle in handles:
            handle.remove()
    return FlopCount(layers, uses)


def connections(part: nn.Module, name: str = "weight") -> int:
    """How many weights of a tensor there are: those of its wiring, or all."""
    if isinstance(part, WiredLayer) and name == "weight":
        kernel = part.weight[0, 0].numel()
        return part.wiring_.connections * kernel
    masked = masked_connections(part, name)
    tensor: Tensor = getattr(part, name)
    return tensor.numel() if masked is None else masked


# -- what a layer does -------------------------------------------------------------------

_RECURRENT = (nn.RNNBase, nn.RNNCellBase)


def _counts(part: nn.Module) -> bool:
    return isinstance(part, (nn.Linear, _ConvNd, nn.MultiheadAttention, nn.Bilinear, *_RECURRENT))


def _used(
    part: nn.Module, given: Any, kwargs: Mapping[str, Any], result: Any
) -> Iterator[tuple[str, int, int]]:
    """The tensors that a layer applies: name, number of weights, how often."""
    first: Any = given[0] if given else next(iter(kwargs.values()), None)
    if isinstance(first, nn.utils.rnn.PackedSequence):
        first = first.data
    if isinstance(part, nn.Linear):
        yield "", connections(part), first.numel() // part.in_features
    elif isinstance(part, nn.Bilinear):
        yield "", part.weight.numel(), first.numel() // part.in1_features
    elif isinstance(part, _ConvNd):
        many = first if isinstance(part, _ConvTransposeNd) else result
        channels = part.in_channels if many is first else part.out_channels
        yield "", connections(part), many.numel() // channels
    elif isinstance(part, nn.MultiheadAttention):
        yield from _attention(part, given, kwargs)
    elif isinstance(part, _RECURRENT):
        times = first.numel() // part.input_size
        for name in _matrices(part):
            yield name, connections(part, name), times


def _attention(
    part: nn.MultiheadAttention, given: Any, kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, int, int]]:
    named = dict(zip(("query", "key", "value"), given, strict=False)) | dict(kwargs)
    lengths = [
        named[key].numel() // width
        for key, width in (("query", part.embed_dim), ("key", part.kdim), ("value", part.vdim))
    ]
    if getattr(part, "in_proj_weight", None) is not None:
        # The three projections are a third each, wired alike or dense.
        third = connections(part, "in_proj_weight") // 3
        for times in lengths:
            yield "in_proj_weight", third, times
    else:
        names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        for name, times in zip(names, lengths, strict=True):
            yield name, connections(part, name), times
    yield "out_proj", connections(part.out_proj), lengths[0]


def _matrices(part: nn.Module) -> list[str]:
    return [n for n in vars(part).get("_flat_weights_names", ()) if "weight" in n] or [
        "weight_ih",
        "weight_hh",
    ]


# -- running without memory --------------------------------------------------------------


def _run(module: nn.Module, inputs: Inputs, forget: Callable[[], None]) -> None:
    args, kwargs = _arguments(inputs)
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    bare = {name: tensor.to("meta") for name, tensor in state.items()}
    try:
        light_args, light_kwargs = _bare(args), _bare(kwargs)
        torch.func.functional_call(module, bare, light_args, light_kwargs)
    except Exception:  # whatever a network does with numbers it lacks
        forget()
    else:
        return
    try:
        module(*args, **kwargs)
    except Exception as error:
        raise ModelError(
            type(module).__name__,
            expected="a network that runs on these inputs",
            found=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
        ) from error


def _arguments(inputs: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(inputs, Tensor):
        return (inputs,), {}
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return tuple(inputs), {}


def _bare(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to("meta")
    if isinstance(value, (list, tuple)):
        return type(value)(_bare(item) for item in value)
    if isinstance(value, dict):
        return {key: _bare(item) for key, item in value.items()}
    return value


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
