"""The hand-derived gradient of a stack against autograd on the plain module."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from weightspace.errors import DataError
from weightspace.zoo import siren_stack
from weightspace.zoo.coordinates import pixel_grid
from weightspace.zoo.domains import Domain, PixelGrid, PointSet
from weightspace.zoo.siren import PUBLISHED, TEXTBOOK, Siren, SirenVariant, initial_states
from weightspace.zoo.siren_stack import SirenStack, StackShape

VARIANTS = [PUBLISHED, TEXTBOOK, SirenVariant(w0_first=11.0, w0_hidden=5.0, bias="linear")]


def reference(
    state: dict[str, Tensor], shape: StackShape, points: Tensor, image: Tensor
) -> tuple[float, dict[str, Tensor]]:
    """The error and the gradients of one network, by autograd."""
    module = Siren(shape.sizes, shape.variant).double()
    module.load_state_dict(state)
    values = module(points)
    loss = ((values.t() - image) ** 2).mean()
    loss.backward()
    grads = {name: parameter.grad for name, parameter in module.named_parameters()}
    return loss.item() ** 0.5, {name: grad for name, grad in grads.items() if grad is not None}


def gradients(
    stack: SirenStack, targets: Tensor | None = None, domain: int = 0
) -> dict[str, Tensor]:
    """The gradients of a stack as a stacked state; of its last call if targets are not given."""
    if targets is not None:
        stack.gradient(targets, domain)
    with torch.no_grad():
        stack.flat.copy_(stack.flat.grad)
    return stack.state()


@st.composite
def domains(draw: st.DrawFn, networks: int, inputs: int, count: int) -> Domain:
    """Points of any kind."""
    rows = draw(st.sampled_from([1, networks]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    return PointSet(torch.randn(rows, count, inputs, generator=generator, dtype=torch.float64))


@st.composite
def cases(draw: st.DrawFn) -> tuple[StackShape, list[Domain], int]:
    """Small networks, and images or other signals."""
    hidden = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    networks, channels = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    variant = draw(st.sampled_from(VARIANTS))
    if draw(st.booleans()):
        grid = PixelGrid(draw(st.integers(1, 6)), draw(st.integers(1, 6)))
        return StackShape((2, *hidden, channels), variant, grid.count), [grid], networks
    inputs, count = draw(st.integers(1, 3)), draw(st.integers(1, 20))
    sets = [draw(domains(networks, inputs, count)) for _ in range(draw(st.integers(1, 3)))]
    return StackShape((inputs, *hidden, channels), variant, count), sets, networks


def points_of(domain: Domain, network: int) -> Tensor:
    """A network's points."""
    if isinstance(domain, PixelGrid):
        return pixel_grid(domain.height, domain.width, dtype=torch.float64)
    assert isinstance(domain, PointSet)
    return domain.points[0 if domain.shared else network]


@settings(max_examples=60, deadline=None)
@given(case=cases(), separable=st.booleans(), block=st.integers(1, 4))
def test_gradients_are_those_of_autograd(
    case: tuple[StackShape, list[Domain], int], separable: bool, block: int
) -> None:
    shape, sets, networks = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PixelGrid, "separable", separable)
        patch.setattr(StackShape, "block", block)
        states = initial_states(shape.sizes, shape.variant, range(networks), dtype=torch.float64)
        stack = SirenStack(states, shape, sets)
        generator = torch.Generator().manual_seed(0)
        signals = torch.rand(
            networks, shape.sizes[-1], shape.points, generator=generator, dtype=torch.float64
        )
        targets = signals - shape.variant.offset
        for number, domain in enumerate(sets):
            # What a call leaves behind must not matter.
            stack.gradient(torch.rand_like(targets), len(sets) - 1 - number)
            errors = stack.gradient(targets, number)
            torch.testing.assert_close(stack.errors(targets, number), errors)
            found = gradients(SirenStack(states, shape, sets), targets, number)
            for index in range(networks):
                state = {name: tensor[index] for name, tensor in states.items()}
                points = points_of(domain, index)
                error, wanted = reference(state, shape, points, signals[index])
                assert errors[index].item() == pytest.approx(error, rel=1e-9)
                for name, gradient in wanted.items():
                    torch.testing.assert_close(found[name][index], gradient, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("size", [8, 28])
def test_single_precision_is_as_good_as_that_of_autograd(size: int) -> None:
    shape = StackShape((2, 32, 32, 1), TEXTBOOK, size * size)
    states = initial_states(shape.sizes, TEXTBOOK, [1, 2])
    image = torch.rand(1, size * size, generator=torch.Generator().manual_seed(0))
    stack = SirenStack(states, shape, [PixelGrid(size, size)])
    found = gradients(stack, image.expand(2, -1, -1))
    points = pixel_grid(size, size, dtype=torch.float64)
    exact = reference({n: t[1].double() for n, t in states.items()}, shape, points, image.double())
    for name, gradient in exact[1].items():
        error = (found[name][1].double() - gradient).norm() / gradient.norm()
        assert error < 2e-5, (name, error)


def test_the_state_comes_back_exactly() -> None:
    shape = StackShape((2, 5, 4, 3), PUBLISHED, 12)
    states = initial_states(shape.sizes, PUBLISHED, range(5))
    stack = SirenStack(states, shape, [PixelGrid(3, 4)])
    for name, tensor in stack.state().items():
        assert torch.equal(tensor, states[name])


@pytest.mark.parametrize("domain", [PixelGrid(3, 4), PointSet(torch.rand(5, 12, 2))])
def test_selecting_keeps_parameters_gradients_and_points(domain: Domain) -> None:
    shape = StackShape((2, 5, 4, 3), PUBLISHED, 12)
    stack = SirenStack(initial_states(shape.sizes, PUBLISHED, range(5)), shape, [domain])
    targets = torch.rand(5, 3, 12)
    errors = stack.gradient(targets)
    chosen = torch.tensor([3, 1])
    some = stack.select(chosen)
    for name, tensor in some.state().items():
        assert torch.equal(tensor, stack.state()[name][chosen])
    torch.testing.assert_close(some.errors(targets[chosen]), errors[chosen])
    kept = gradients(some)
    for name, tensor in gradients(stack).items():
        assert torch.equal(kept[name], tensor[chosen])


def test_blocks_fill_the_cache_and_no_more() -> None:
    shape = StackShape((2, 32, 32, 1), PUBLISHED, 28 * 28)
    assert 1 < shape.block < 8
    assert StackShape((2, 32, 32, 1), PUBLISHED, 512 * 512).block == 1
    assert siren_stack.CACHE_BYTES < 2**21


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (torch.zeros(5, 2), r"found float32 of shape \(5, 2\)"),
        (torch.zeros(1, 0, 2), "at least one, found"),
        (torch.zeros(1, 5, 2, dtype=torch.int64), "found int64"),
        (torch.full((1, 5, 2), torch.nan), "finite coordinates"),
    ],
)
def test_points_that_are_none_are_refused(points: Tensor, message: str) -> None:
    with pytest.raises(DataError, match=message):
        PointSet(points)
