"""Every architecture of torchvision, and one of every family of timm, with random weights."""

from __future__ import annotations

from typing import Any

import torch
from trial import Built, stir


def names(which: str) -> list[str]:
    """All of torchvision's models; the smallest model of each timm family."""
    if which == "torchvision":
        from torchvision.models import list_models

        return [n for n in list_models() if not n.startswith("quantized_")]
    import timm

    smallest = []
    for module in sorted(timm.list_modules()):
        models = timm.list_models(module=module)
        if models:
            smallest.append(min(models, key=lambda name: (_weight(name), len(name), name)))
    return smallest


def _weight(name: str) -> int:
    """How large a model is by the usual words in its name; small ones run faster."""
    words = ("test", "atto", "femto", "pico", "nano", "xxs", "xs", "tiny", "small", "lite", "mini")
    found = [place for place, word in enumerate(words) if word in name]
    return found[0] if found else len(words)


def build(which: str, name: str) -> Built:
    """The network with stirred weights, and an image or clip of its size."""
    torch.manual_seed(0)
    if which == "torchvision":
        return _torchvision(name)
    import timm

    model = stir(timm.create_model(name, pretrained=False))
    channels, height, width = model.pretrained_cfg["input_size"]
    return model, (torch.randn(1, channels, height, width),)


def _torchvision(name: str) -> Built:
    from torchvision.models import get_model

    options: dict[str, Any] = {"weights": None}
    if name not in {"raft_large", "raft_small"} and "init_weights" in _options(name):
        options["init_weights"] = False
    for extra in ("weights_backbone",):
        if extra in _options(name):
            options[extra] = None
    model = stir(get_model(name, **options))
    if name.startswith("raft"):
        return model, (torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128))
    if any(word in name for word in ("mvit", "swin3d", "r3d", "mc3", "r2plus1d", "s3d")):
        return model, (torch.randn(1, 3, 16, 224, 224),)
    if any(word in name for word in ("rcnn", "retinanet", "fcos", "ssd")):
        return model, ([torch.randn(3, 224, 224)],)
    size = 299 if "inception" in name else 224
    return model, (torch.randn(1, 3, size, size),)


def _options(name: str) -> set[str]:
    import inspect

    from torchvision.models import get_model_builder

    parameters = inspect.signature(get_model_builder(name)).parameters
    return set(parameters)
