from __future__ import annotations

import copy
import io

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.relational.oracle import message_exchange
from weightspace.errors import GraphError, ModelError, StateError
from weightspace.relational import complete, ring, ws_flex
from weightspace.relational.execution import (
    AUTO,
    BLOCK_SPARSE,
    MASKED,
    Plan,
    fastest,
    fixed_plan,
    forget_choices,
    resolve,
)
from weightspace.relational.layers import (
    RelationalConv1d,
    RelationalConv2d,
    RelationalConv3d,
    RelationalLinear,
)
from weightspace.relational.node_sizes import node_sizes
from weightspace.relational.ordering import banded_order, clustered_order, union_size
from weightspace.relational.wiring import Wiring

PLANS = [
    MASKED,
    BLOCK_SPARSE,
    Plan(3),
    Plan(4, ordered=True),
    Plan(4, in_place=True),
    Plan(2, rows=2),
]


def test_sizes_share_the_width_as_the_specification_says() -> None:
    assert sorted(node_sizes(5, 4)) == [1, 1, 1, 2]
    assert sorted(node_sizes(9, 4)) == [2, 2, 2, 3]
    assert sum(node_sizes(893, 64)) == 893


def test_sizes_leave_the_global_generator_alone() -> None:
    np.random.seed(7)
    before = np.random.get_state()[1].copy()  # type: ignore[index, union-attr]
    first = node_sizes(1001, 37)
    after = np.random.get_state()[1]  # type: ignore[index]
    assert np.array_equal(before, after)
    np.random.seed(8)
    node_sizes.__globals__["_sizes"].cache_clear()
    assert node_sizes(1001, 37) == first


def test_too_many_nodes_say_the_limit_and_the_value() -> None:
    with pytest.raises(GraphError, match=r"at most 8 nodes.*found 9 nodes"):
        RelationalLinear(16, 8, ring(9))


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(3, 12),
    extra=st.tuples(st.integers(0, 20), st.integers(0, 20)),
    p=st.floats(0, 1),
    plan=st.sampled_from(PLANS),
    seed=st.integers(0, 99),
)
def test_linear_is_message_exchange(
    n: int, extra: tuple[int, int], p: float, plan: Plan, seed: int
) -> None:
    torch.manual_seed(seed)
    graph = ws_flex(n, min(3.0, n), p, seed=seed)
    layer = RelationalLinear(n + extra[0], n + extra[1], graph, plan=plan, dtype=torch.float64)
    x = torch.randn(5, n + extra[0], dtype=torch.float64, requires_grad=True)
    # What stands outside the wiring must have no effect.
    with torch.no_grad():
        layer.weight.copy_(torch.randn_like(layer.weight))
    upstream = torch.randn(5, n + extra[1], dtype=torch.float64)
    y = layer(x)
    expected = message_exchange(x, layer.weight, layer.wiring_) + layer.bias
    torch.testing.assert_close(y, expected)
    own = torch.autograd.grad(y, (x, layer.weight, layer.bias), upstream)
    theirs = torch.autograd.grad(expected, (x, layer.weight, layer.bias), upstream)
    for one, other in zip(own, theirs, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_convolution_is_message_exchange(plan: Plan, dimensions: int) -> None:
    torch.manual_seed(0)
    kind = {1: RelationalConv1d, 2: RelationalConv2d, 3: RelationalConv3d}[dimensions]
    options = {"stride": 2, "padding": 1, "dilation": 1}
    layer = kind(9, 14, ws_flex(8, 3, 0.4, seed=2), 3, plan=plan, dtype=torch.float64, **options)  # type: ignore[arg-type]
    x = torch.randn(2, 9, *[5] * dimensions, dtype=torch.float64, requires_grad=True)
    y = layer(x)
    shift = layer.bias.view(-1, *[1] * dimensions)
    expected = message_exchange(x, layer.weight, layer.wiring_, **options) + shift
    torch.testing.assert_close(y, expected)
    upstream = torch.randn_like(y)
    own = torch.autograd.grad(y, (x, layer.weight, layer.bias), upstream)
    theirs = torch.autograd.grad(expected, (x, layer.weight, layer.bias), upstream)
    for one, other in zip(own, theirs, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_the_complete_graph_is_a_dense_layer(plan: Plan) -> None:
    layer = RelationalLinear(12, 9, complete(6), plan=plan)
    x = torch.randn(2, 4, 12)
    dense = nn.functional.linear(x, layer.weight, layer.bias)
    torch.testing.assert_close(layer(x), dense)


def test_padding_modes_and_words() -> None:
    torch.manual_seed(0)
    for options in ({"padding": 1, "padding_mode": "circular"}, {"padding": "same"}):
        layer = RelationalConv2d(6, 6, ring(6), 3, **options)  # type: ignore[arg-type]
        dense = nn.Conv2d(6, 6, 3, **options)  # type: ignore[arg-type]
        dense.load_state_dict({"weight": layer.weight, "bias": layer.bias})
        x = torch.randn(1, 6, 5, 5)
        torch.testing.assert_close(layer(x), dense(x))


@pytest.mark.parametrize("plan", [MASKED, Plan(4)], ids=str)
def test_training_keeps_what_is_not_wired_at_zero(plan: Plan) -> None:
    torch.manual_seed(0)
    layer = RelationalLinear(16, 16, ring(8), plan=plan)
    optimiser = torch.optim.AdamW(layer.parameters(), 0.1)
    for _ in range(3):
        optimiser.zero_grad()
        layer(torch.randn(8, 16)).square().sum().backward()
        optimiser.step()
    assert layer.weight[layer.mask == 0].abs().max() == 0
    assert layer.weight[layer.mask == 1].abs().min() > 0


def test_the_state_dict_knows_its_wiring() -> None:
    layer = RelationalLinear(16, 8, ws_flex(8, 3, 0.5, seed=1))
    assert set(layer.state_dict()) == {"weight", "bias", "wiring"}
    same = RelationalLinear(16, 8, ws_flex(8, 3, 0.5, seed=1))
    same.load_state_dict(layer.state_dict())
    assert torch.equal(same.weight, layer.weight)
    with pytest.raises(StateError, match="another graph"):
        RelationalLinear(16, 8, ring(8)).load_state_dict(layer.state_dict())


def test_a_dense_state_loads_and_is_masked() -> None:
    dense, layer = nn.Linear(16, 8), RelationalLinear(16, 8, ring(8))
    layer.load_state_dict(dense.state_dict())
    assert torch.equal(layer.weight, dense.weight * layer.mask)


def test_copies_saves_and_types() -> None:
    layer = RelationalLinear(16, 8, ring(8), plan=Plan(4))
    x = torch.randn(3, 16)
    expected = layer(x)
    assert torch.equal(copy.deepcopy(layer)(x), expected)
    stream = io.BytesIO()
    torch.save(layer.state_dict(), stream)
    stream.seek(0)
    other = RelationalLinear(16, 8, ring(8), plan=Plan(4))
    other.load_state_dict(torch.load(stream, weights_only=True))
    assert torch.equal(other(x), expected)
    double = layer.double()
    assert double.mask.dtype == torch.float64
    assert double.wiring.dtype == torch.bool
    torch.testing.assert_close(double(x.double()).float(), expected)
    assert layer.to("meta").mask.is_meta


@pytest.mark.parametrize("kind", ["linear", "conv"])
def test_export_gives_the_same_function(kind: str) -> None:
    layer: nn.Module = RelationalLinear(16, 8, ring(8), plan=Plan(4))
    x = torch.randn(3, 16)
    if kind == "conv":
        layer, x = RelationalConv2d(8, 8, ring(8), 3, plan=Plan(4)), torch.randn(2, 8, 5, 5)
    exported = torch.export.export(layer.eval(), (x,)).module()
    torch.testing.assert_close(exported(x), layer(x))


def test_compile_gives_the_same_function_and_gradients() -> None:
    layer = RelationalLinear(16, 8, ring(8))
    x = torch.randn(3, 16)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    compiled(x).sum().backward()
    own = layer.weight.grad
    layer.weight.grad = None
    layer(x).sum().backward()
    torch.testing.assert_close(own, layer.weight.grad)


def test_function_transforms_and_autocast_work() -> None:
    layer = RelationalLinear(16, 8, ring(8), plan=Plan(4))
    x = torch.randn(3, 16)
    torch.testing.assert_close(torch.vmap(layer)(x), layer(x))
    jacobian = torch.func.jacrev(layer)(x[0])
    torch.testing.assert_close(jacobian, layer.weight * layer.mask)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16


def test_initialisation_scales_by_the_inputs_a_neuron_has() -> None:
    torch.manual_seed(0)
    graph = ws_flex(16, 4, 0.5, seed=0)
    layer = RelationalLinear(256, 256, graph)
    fan_in = layer.mask.sum(1)
    assert fan_in.unique().numel() > 1
    bound = 1 / fan_in.sqrt()
    largest = layer.weight.abs().amax(1)
    assert (largest <= bound).all()
    assert (largest > 0.8 * bound).all()
    y = layer(torch.randn(4096, 256))
    assert 0.45 < y.var() / (1 / 3 + layer.bias.square().mean()) < 1.6


def test_the_published_initialisation() -> None:
    torch.manual_seed(0)
    linear = RelationalLinear(128, 128, ring(16), init="published")
    assert linear.weight[linear.mask == 1].std().item() == pytest.approx(0.01, rel=0.05)
    assert not linear.bias.any()
    conv = RelationalConv2d(64, 64, ring(16), 3, init="published")
    fan_out = 9 * 64 * conv.wiring_.density
    wired = conv.weight[conv.mask.expand_as(conv.weight) == 1]
    assert wired.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.05)
    with pytest.raises(GraphError, match="'fan_in' or 'published'"):
        RelationalLinear(16, 16, ring(8), init="ones")  # type: ignore[arg-type]


def test_plans() -> None:
    with pytest.raises(ModelError, match="found -1"):
        Plan(-1)
    wiring = Wiring.between(ring(8), 16, 16)
    small = torch.zeros(2, 16)
    assert resolve(AUTO, wiring, small) == MASKED
    with fixed_plan(Plan(2)):
        assert resolve(AUTO, wiring, small) == Plan(2)
        assert resolve(MASKED, wiring, small) == MASKED


def test_the_measured_plan_is_kept_and_computes_the_same() -> None:
    forget_choices()
    layer = RelationalLinear(256, 256, ws_flex(64, 4, 0.1, seed=0))
    x = torch.randn(256, 256)
    y = layer(x)
    assert resolve(AUTO, layer.wiring_, x) == resolve(AUTO, layer.wiring_, x[:200])
    with fixed_plan(MASKED):
        torch.testing.assert_close(y, layer(x), atol=1e-5, rtol=1e-4)
    whole = Wiring.between(complete(64), 64, 64)
    assert fastest(whole, 8, dtype=torch.float32, device=torch.device("cpu")) == MASKED


def test_orders_make_unions_smaller() -> None:
    graph = ws_flex(64, 8, 1, seed=3)
    clustered = clustered_order(graph, 4)
    assert sorted(clustered) == list(range(64)) == sorted(banded_order(graph))
    plain = union_size(graph, tuple(range(64)), 4)
    assert union_size(graph, clustered, 4) < 0.9 * plain
    shuffled = ws_flex(64, 8, 0, seed=0).permuted(np.random.default_rng(0).permutation(64))
    lattice = union_size(ws_flex(64, 8, 0, seed=0), tuple(range(64)), 4)
    assert union_size(shuffled, clustered_order(shuffled, 4), 4) <= 1.1 * lattice


def test_an_order_of_the_channels_is_the_same_network() -> None:
    graph = ws_flex(8, 3, 0.7, seed=1)
    order = [3, 1, 4, 0, 5, 7, 2, 6]
    plain, ordered = Wiring.between(graph, 21, 13), Wiring.between(graph, 21, 13, order=order)
    assert plain.connections == ordered.connections
    rows = np.concatenate([list(plain.channels("out")[node]) for node in order])
    columns = np.concatenate([list(plain.channels("in")[node]) for node in order])
    assert np.array_equal(plain.mask().numpy()[np.ix_(rows, columns)], ordered.mask().numpy())


def test_no_rows_and_first_layers() -> None:
    layer = RelationalLinear(16, 8, ring(8), plan=Plan(2))
    assert layer(torch.zeros(0, 16)).shape == (0, 8)
    layer(torch.randn(3, 16)).sum().backward()
    expected = torch.autograd.grad(
        nn.functional.linear(torch.ones(1, 16), layer.weight * layer.mask).sum(), layer.weight
    )[0]
    assert (layer.weight.grad != 0).equal(expected != 0)
    frozen = RelationalLinear(16, 8, ring(8), plan=Plan(2)).requires_grad_(False)
    x = torch.randn(3, 16, requires_grad=True)
    (grad,) = torch.autograd.grad(frozen(x).sum(), x)
    torch.testing.assert_close(grad, (frozen.weight * frozen.mask).sum(0).expand(3, -1))
