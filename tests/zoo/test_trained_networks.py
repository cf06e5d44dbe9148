"""The networks of recipes: alone and stacked, imported, and unchanged by their symmetries."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from weightspace.errors import DataError, ModelError
from weightspace.graph import NeuralGraph, SymmetryGroup
from weightspace.importers import from_module
from weightspace.zoo.char_transformer import CharTransformer
from weightspace.zoo.classifying import stacked_state, vectorised
from weightspace.zoo.cnn_zoo import small_cnn_spec
from weightspace.zoo.image_mlp import ImageMlp, image_mlp_spec
from weightspace.zoo.rebuilding import build_network
from weightspace.zoo.small_cnn import ACTIVATIONS, SmallCnn, SmallCnnStack
from weightspace.zoo.small_vit import SmallVit
from weightspace.zoo.transformer_block import TransformerShape, draw_shapes
from weightspace.zoo.wild_cnn import WildArchitecture, WildCnn

SHAPE = TransformerShape(8, 2, 2, 2, "gelu")
WIDENING = WildArchitecture(
    (4, 16, 8, 4), (3, 5, 7, 3), ("relu", "tanh", "gelu", "none"), (-1, 0, 1, 2)
)


def check_import(module: nn.Module, inputs: torch.Tensor) -> NeuralGraph:
    """Import a module and run it under its group."""
    graph = from_module(module.eval(), inputs)
    assert not graph.spec.left_out

    def run(state: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.func.functional_call(module, dict(state), (inputs,))

    SymmetryGroup(graph.spec).check(run, module.state_dict()).require()
    assert SymmetryGroup(graph.spec).log_order > 0
    return graph


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("channels", [1, 3])
def test_a_stack_of_small_cnns_runs_as_each_alone(activation: str, channels: int) -> None:
    torch.manual_seed(1)
    networks = [SmallCnn(activation, channels=channels, classes=5) for _ in range(3)]
    images = torch.rand(3, 6, channels, 18, 17)
    run = SmallCnnStack(activation, dropout=torch.zeros(3), seed=0)
    logits = run(stacked_state(networks), images, True)
    alone = torch.stack([net(x) for net, x in zip(networks, images, strict=True)])
    torch.testing.assert_close(logits, alone)
    torch.testing.assert_close(
        vectorised(networks[0])(stacked_state(networks), images, True), alone
    )


def test_dropout_takes_channels_of_the_networks_it_is_for() -> None:
    torch.manual_seed(1)
    networks = [SmallCnn("relu") for _ in range(2)]
    state, images = stacked_state(networks), torch.rand(2, 400, 1, 16, 16)
    run = SmallCnnStack("relu", dropout=torch.tensor([0.0, 0.4]), seed=3)
    calm, dropped = run(state, images, False), run(state, images, True)
    torch.testing.assert_close(calm[0], dropped[0])
    assert float((calm[1] - dropped[1]).abs().mean()) > 1e-3
    mask = run._mask(torch.zeros(5000, 32, 1, 1))
    assert float(mask[:, 16:].mean()) == pytest.approx(1, abs=0.02)
    assert torch.unique(mask[:, 16:]).tolist() == pytest.approx([0, 1 / 0.6])
    again = SmallCnnStack("relu", dropout=torch.tensor([0.0, 0.4]), seed=3)
    again(state, images, False)
    assert torch.equal(again(state, images, True), dropped)


def test_small_cnns_have_the_published_size_and_import() -> None:
    graph = check_import(SmallCnn("tanh"), torch.rand(2, 1, 28, 28))
    assert graph.spec == small_cnn_spec("tanh")
    assert graph.spec.parameter_count == 4970


@pytest.mark.parametrize("seed", range(4))
def test_wild_cnns_import_with_their_residuals(seed: int) -> None:
    torch.manual_seed(seed)
    architecture = WildArchitecture.draw(np.random.default_rng(seed))
    check_import(WildCnn(architecture), torch.rand(2, 1, 16, 16))


def test_residuals_between_all_widths_import() -> None:
    torch.manual_seed(0)
    graph = check_import(WildCnn(WIDENING, channels=2), torch.rand(2, 2, 28, 28))
    added = [block for block in graph.spec.blocks if block.kind == "identity"]
    assert len(added) >= 6
    # Sixteen channels, of which four are tied to the first layer's and four to the third's.
    hidden = sorted(axis.size for axis in graph.spec.axes if axis.role == "hidden")
    assert hidden == [4, 4, 8]


def test_residuals_are_added_over_the_shared_channels() -> None:
    torch.manual_seed(0)
    net = WildCnn(WildArchitecture((4, 8), (3, 3), ("none", "none"), (-1, 0)))
    images = torch.rand(2, 1, 8, 8)
    first = net.convs[0](images)
    second = net.convs[1](first)
    second[:, :4] += nn.functional.avg_pool2d(first, 2)
    torch.testing.assert_close(net(images), net.head(second.mean((2, 3))))


def test_architectures_go_through_the_columns_of_a_zoo() -> None:
    for seed in range(50):
        architecture = WildArchitecture.draw(np.random.default_rng(seed))
        assert WildArchitecture.from_row(architecture.columns()) == architecture
    for shape in draw_shapes(3, 50):
        assert TransformerShape.from_row(shape.columns()) == shape


def test_image_mlps_are_chains() -> None:
    net = ImageMlp([12, 7, 6, 3], "tanh")
    spec = image_mlp_spec([12, 7, 6, 3], "tanh")
    images = torch.rand(4, 3, 2, 2)

    def run(state: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.func.functional_call(net, dict(state), (images,))

    group = SymmetryGroup(spec)
    group.check(run, net.state_dict(), kinds=("permutation", "sign")).require()


def test_transformers_import_and_do_not_look_ahead() -> None:
    torch.manual_seed(0)
    check_import(SmallVit(SHAPE, image=(1, 8, 8), patch=4), torch.rand(2, 1, 8, 8))
    model = CharTransformer(SHAPE, characters=11, context=9)
    text = torch.randint(11, (2, 9))
    check_import(model, text)
    changed = text.clone()
    changed[:, 5:] = (changed[:, 5:] + 1) % 11
    torch.testing.assert_close(model(text)[:, :5], model(changed)[:, :5])
    assert not torch.allclose(model(text)[:, 5], model(changed)[:, 5])


def test_structures_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ModelError, match="residual into layer 1"):
        WildArchitecture((4, 4), (3, 3), ("relu", "relu"), (-1, 1))
    with pytest.raises(ModelError, match="one entry a layer"):
        WildArchitecture((4, 4), (3,), ("relu", "relu"), (-1, -1))
    with pytest.raises(ModelError, match="activation"):
        SmallCnn("sine")
    with pytest.raises(ModelError, match="heads"):
        TransformerShape(8, 3, 1, 1, "relu")
    with pytest.raises(ModelError, match="patch"):
        SmallVit(SHAPE, image=(1, 9, 9), patch=4)
    with pytest.raises(DataError, match="architecture"):
        build_network({"label": 3})
