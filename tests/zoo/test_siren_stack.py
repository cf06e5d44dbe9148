"""The hand-derived gradient of a stack against autograd on the plain module."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from weightspace.zoo import siren_stack
from weightspace.zoo.coordinates import pixel_grid
from weightspace.zoo.siren import PUBLISHED, TEXTBOOK, Siren, SirenVariant, initial_states
from weightspace.zoo.siren_stack import SirenStack, StackShape

VARIANTS = [PUBLISHED, TEXTBOOK, SirenVariant(w0_first=11.0, w0_hidden=5.0, bias="linear")]


def reference(
    state: dict[str, Tensor], shape: StackShape, image: Tensor
) -> tuple[float, dict[str, Tensor]]:
    """The error and the gradients of one network, by autograd."""
    module = Siren(shape.sizes, shape.variant).double()
    module.load_state_dict(state)
    values = module(pixel_grid(shape.height, shape.width, dtype=torch.float64))
    loss = ((values.t() - image) ** 2).mean()
    loss.backward()
    grads = {name: parameter.grad for name, parameter in module.named_parameters()}
    return loss.item() ** 0.5, {name: grad for name, grad in grads.items() if grad is not None}


def gradients(stack: SirenStack) -> dict[str, Tensor]:
    """The gradients of a stack as a stacked state."""
    with torch.no_grad():
        stack.flat.copy_(stack.flat.grad)
    return stack.state()


@st.composite
def shapes(draw: st.DrawFn) -> StackShape:
    """Small networks and images of any kind."""
    hidden = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    sizes = (2, *hidden, draw(st.integers(1, 3)))
    height, width = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    return StackShape(sizes, draw(st.sampled_from(VARIANTS)), height, width)


@settings(max_examples=40, deadline=None)
@given(shape=shapes(), networks=st.integers(1, 7), separable=st.booleans(), block=st.integers(1, 4))
def test_gradients_are_those_of_autograd(
    shape: StackShape, networks: int, separable: bool, block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StackShape, "separable", separable)
        patch.setattr(StackShape, "block", block)
        states = initial_states(shape.sizes, shape.variant, range(networks), dtype=torch.float64)
        stack = SirenStack(states, shape)
        generator = torch.Generator().manual_seed(0)
        images = torch.rand(
            networks, shape.sizes[-1], shape.pixels, generator=generator, dtype=torch.float64
        )
        stack.gradient(torch.rand_like(images))  # what a call leaves behind must not matter
        errors = stack.gradient(images - shape.variant.offset)
        torch.testing.assert_close(stack.errors(images - shape.variant.offset), errors)
        found = gradients(stack)
    for index in range(networks):
        state = {name: tensor[index] for name, tensor in states.items()}
        error, wanted = reference(state, shape, images[index])
        assert errors[index].item() == pytest.approx(error, rel=1e-9)
        for name, gradient in wanted.items():
            torch.testing.assert_close(found[name][index], gradient, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("size", [8, 28])
def test_single_precision_is_as_good_as_that_of_autograd(size: int) -> None:
    shape = StackShape((2, 32, 32, 1), TEXTBOOK, size, size)
    states = initial_states(shape.sizes, TEXTBOOK, [1, 2])
    image = torch.rand(1, size * size, generator=torch.Generator().manual_seed(0))
    stack = SirenStack(states, shape)
    stack.gradient(image.expand(2, -1, -1))
    found = gradients(stack)
    exact = reference({n: t[1].double() for n, t in states.items()}, shape, image.double())[1]
    for name, gradient in exact.items():
        error = (found[name][1].double() - gradient).norm() / gradient.norm()
        assert error < 2e-5, (name, error)


def test_the_state_comes_back_exactly() -> None:
    shape = StackShape((2, 5, 4, 3), PUBLISHED, 3, 4)
    states = initial_states(shape.sizes, PUBLISHED, range(5))
    stack = SirenStack(states, shape)
    for name, tensor in stack.state().items():
        assert torch.equal(tensor, states[name])


def test_selecting_keeps_parameters_and_gradients() -> None:
    shape = StackShape((2, 5, 4, 3), PUBLISHED, 3, 4)
    stack = SirenStack(initial_states(shape.sizes, PUBLISHED, range(5)), shape)
    targets = torch.rand(5, 3, 12)
    stack.gradient(targets)
    chosen = torch.tensor([3, 1])
    some = stack.select(chosen)
    for name, tensor in some.state().items():
        assert torch.equal(tensor, stack.state()[name][chosen])
    kept = gradients(some)
    for name, tensor in gradients(stack).items():
        assert torch.equal(kept[name], tensor[chosen])


def test_blocks_fill_the_cache_and_no_more() -> None:
    shape = StackShape((2, 32, 32, 1), PUBLISHED, 28, 28)
    assert 1 < shape.block < 8
    assert StackShape((2, 32, 32, 1), PUBLISHED, 512, 512).block == 1
    assert siren_stack.CACHE_BYTES < 2**21
