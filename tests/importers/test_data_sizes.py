"""Networks whose sizes depend on numbers are followed, branches on numbers are not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from weightspace import from_module
from weightspace.errors import TraceError

from .checking import faithful, groups


@torch.library.custom_op("weightspace_tests::nms", mutates_args=())
def nms(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """Boxes, best first, that do not overlap a better one."""
    kept: list[int] = []
    for i in scores.argsort(descending=True).tolist():
        corner = torch.maximum(boxes[i, :2], boxes[kept, :2])
        size = (torch.minimum(boxes[i, 2:], boxes[kept, 2:]) - corner).clamp(min=0).prod(-1)
        if not (size > threshold).any():
            kept.append(i)
    return torch.tensor(kept)


@nms.register_fake
def _(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    return scores.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.long)


@torch.library.custom_op("weightspace_tests::roi_align", mutates_args=())
def roi_align(images: Tensor, boxes: Tensor, size: int) -> Tensor:
    """The mean over each box, at every place of the result."""
    cut = [images[int(b), :, int(y) : int(v) + 1, int(x) : int(u) + 1].mean((-1, -2))
           for b, x, y, u, v in boxes.tolist()]  # fmt: skip
    return torch.stack(cut)[..., None, None].repeat(1, 1, size, size)


@roi_align.register_fake
def _(images: Tensor, boxes: Tensor, size: int) -> Tensor:
    return images.new_empty(boxes.shape[0], images.shape[1], size, size)


class Detector(nn.Module):
    """Finds boxes, keeps the best, and looks into them once more."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.neck = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 6, 3)
        self.head, self.score = nn.Conv2d(6, 4, 1), nn.Conv2d(6, 1, 1)
        self.look = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        features = self.neck(torch.tanh(self.body(x)))
        boxes = 5 * self.head(features).sigmoid()[0].flatten(1).t()
        boxes = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], dim=-1)
        scores = self.score(features).flatten()
        kept = nms(boxes, scores, 2.0)
        if kept.numel() > 1000:
            kept = kept[:1000]
        chosen = torch.cat([torch.zeros(len(kept), 1, dtype=x.dtype), boxes[kept]], dim=-1)
        return self.look(roi_align(features, chosen, 2).mean((-1, -2)))


class Routed(nn.Module):
    """Experts that see only the tokens that chose them, if there are any."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.gate = nn.Linear(3, 6), nn.Linear(6, 2)
        self.experts = nn.ModuleList(nn.Linear(6, 6) for _ in range(2))
        self.outer = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.inner(x).tanh()
        choice = self.gate(x).argmax(-1)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            own = (choice == number).nonzero().flatten()
            if own.numel() > 0:
                y = y.index_add(0, own, expert(x[own]))
        return self.outer(y)


def test_boxes_are_chosen_and_looked_into() -> None:
    torch.manual_seed(0)
    graph = faithful(Detector(), torch.randn(1, 3, 9, 9))
    assert groups(graph) == ["1", "6", "8"]


def test_the_number_of_tokens_of_an_expert_may_be_anything() -> None:
    torch.manual_seed(0)
    graph = faithful(Routed(), torch.randn(10, 3))
    assert groups(graph) == ["6", "6"]


def test_a_branch_on_numbers_is_refused_quietly(capfd: pytest.CaptureFixture[str]) -> None:
    class Branching(Routed):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            return y if y.sum() > 0 else -y

    with pytest.raises(TraceError, match=r"Branching: .*data-dependent"):
        from_module(Branching(), torch.randn(10, 3))
    assert capfd.readouterr() == ("", "")
