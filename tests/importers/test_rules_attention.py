"""Rules of attention, embeddings and whole transformers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from weightspace.graph import NeuralGraph

from .checking import faithful, groups, wreath
from .transformers import Attention, Block, Experts, Fused, Language, Vision, Windows

IDS = torch.tensor([[3, 1, 4, 1, 5, 9]])


def language(attention: nn.Module, **options: object) -> NeuralGraph:
    gated = bool(options.pop("gated", False))
    return faithful(Language(Block(attention, gated=gated), **options), IDS)  # type: ignore[arg-type]


def test_heads_permute_with_their_own_permutations() -> None:
    graph = language(Attention())
    assert groups(graph) == ["12", "2", "20", "6 in 2"]
    expected = math.lgamma(13) + math.lgamma(21) + wreath(2, 6)
    assert graph.symmetry.log_order == pytest.approx(expected)


def test_heads_stored_inside_features_stay_outside() -> None:
    class Inside(Attention):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = (
                layer(x).view(*x.shape[:2], 2, 6).transpose(1, 2)
                for layer in (self.q, self.k, self.v)
            )
            mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
            return self.o(mixed.permute(0, 2, 3, 1).flatten(2))

    assert groups(language(Inside())) == ["12", "2", "20", "6 in 2"]


def test_attention_is_one_block_with_three_features() -> None:
    graph = language(Attention())
    (block,) = [b for b in graph.spec.blocks if b.kind == "attention"]
    assert graph.spec.shape_of(block) == (1, 12, 12, 3)
    assert [p.parameter.split(".")[-2] for p in block.pieces] == ["q", "k", "v"]
    assert graph.spec.node_set(block.target).features == 3
    assert (
        graph.spec.node_set(block.target).axes
        == graph.spec.node_set("blocks.0.attention.heads").axes
    )


@pytest.mark.parametrize("layout", ["parts", "stacked", "interleaved"])
def test_fused_tensors(layout: str) -> None:
    graph = language(Fused(layout))
    assert groups(graph) == ["12", "2", "20", "6 in 2"]
    (block,) = [b for b in graph.spec.blocks if b.kind == "attention"]
    assert graph.spec.shape_of(block) == (1, 12, 12, 3)


def test_eager_attention_keeps_queries_apart_from_values() -> None:
    graph = language(Attention(eager=True))
    assert groups(graph) == ["12", "2", "20", "6 in 2", "6 in 2"]


def test_grouped_queries() -> None:
    graph = language(Attention(heads=4, kv_heads=2))
    assert groups(graph) == ["12", "2", "2 in 2", "20", "6 in 2", "6 in 2"]


def test_rotary_positions_fix_queries_and_free_values() -> None:
    graph = language(Attention(rotary=True))
    assert groups(graph) == ["12", "2", "20", "6 in 2"]
    fixed = [a for a in graph.spec.axes if a.role == "hidden" and not a.permutes]
    assert [(a.size, a.reason) for a in fixed] == [(3, "a constant")]


def test_llama_shape() -> None:
    attention = Attention(heads=4, kv_heads=2, rotary=True, bias=False)
    graph = language(attention, gated=True, tied=True)
    assert groups(graph) == ["12", "2", "2 in 2", "20", "6 in 2"]
    tied = [(item.parameter.name, item.same_as) for item in graph.spec.left_out]
    assert tied == [("head.weight", "tokens.weight")]
    holders = [
        b for b in graph.spec.blocks if any(p.parameter == "tokens.weight" for p in b.pieces)
    ]
    assert [b.kind for b in holders] == ["embedding", "dense"]


def test_norm_of_heads_ties_them() -> None:
    graph = language(Attention(qk_norm=True, eager=True))
    assert groups(graph) == ["12", "2", "20", "6", "6 in 2"]


def test_cross_attention() -> None:
    class Crossed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 12), nn.Linear(4, 12)
            self.attention, self.head = Attention(), nn.Linear(12, 2)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.head(self.attention(self.a(x), self.b(y)))

    graph = faithful(Crossed(), torch.randn(1, 5, 3), torch.randn(1, 7, 4))
    assert groups(graph) == ["12", "12", "12", "2", "6 in 2", "6 in 2"]


@pytest.mark.parametrize("batch_first", [True, False])
def test_torch_attention_layers(batch_first: bool) -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inlet, self.head = nn.Linear(3, 12), nn.Linear(12, 2)
            self.attention = nn.MultiheadAttention(12, 2, batch_first=batch_first)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.inlet(x)
            return self.head(self.attention(x, x, x)[0])

    assert groups(faithful(Own(), torch.randn(2, 5, 3))) == ["12", "12", "2", "6 in 2"]


@pytest.mark.filterwarnings("ignore")
def test_torch_transformer() -> None:
    net = nn.Transformer(12, 2, 1, 1, 20, batch_first=True)
    graph = faithful(net, torch.randn(1, 5, 12), torch.randn(1, 4, 12))
    assert {"20", "2", "6 in 2"} <= set(groups(graph))


def test_gpt2_shape_with_learned_positions() -> None:
    graph = language(Fused("parts"), positions=9, tied=True)
    assert groups(graph) == ["12", "2", "20", "6 in 2"]
    assert "positions.weight" in {p.name for p in graph.spec.parameters}


def test_vision_transformer() -> None:
    graph = faithful(Vision(Block(Fused("stacked"))), torch.randn(1, 3, 8, 8))
    assert groups(graph) == ["12", "2", "20", "6 in 2"]
    assert {"cls", "positions"} <= {p.name for p in graph.spec.parameters}


def test_shifted_windows() -> None:
    graph = faithful(Windows(), torch.randn(1, 3, 8, 8))
    assert groups(graph) == ["12", "2", "6 in 2"]
    assert [item.parameter.name for item in graph.spec.left_out] == ["index"]


def test_experts_permute_under_a_soft_router() -> None:
    assert groups(faithful(Experts(), torch.randn(4, 3))) == ["3", "5 in 3", "6", "6"]


def test_embedding_of_several_inputs() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.head = nn.Embedding(5, 8), nn.Embedding(7, 8), nn.Linear(8, 2)

        def forward(self, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
            return self.head(self.a(i) + self.b(j))

    graph = faithful(Two(), torch.tensor([1, 2]), torch.tensor([3, 4]))
    assert groups(graph) == ["8"]
    assert [b.kind for b in graph.spec.blocks].count("embedding") == 2
