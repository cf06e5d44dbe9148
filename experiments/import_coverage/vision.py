"""Every architecture of torchvision, and one of every family of timm, with random weights."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree
from trial import Built, stir

Make = Callable[[str, dict[str, Any]], nn.Module]


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
    """The network with stirred weights, and a small image or clip that it takes."""
    torch.manual_seed(0)
    make, sizes = (_torchvision, _clip_or_image) if which == "torchvision" else (_timm, _images)
    choices = list(sizes(name))
    options, inputs = next((c for c in choices if _runs(make, name, *c)), choices[-1])
    torch.manual_seed(0)
    network = stir(make(name, options))
    if isinstance(inputs[0], list):
        _settle(network, inputs)
    return network, inputs


def _settle(network: nn.Module, inputs: Any) -> None:
    """Scale every layer of a random detector so that its outputs have unit spread.

    Values that grow from layer to layer end in boxes and scores at their bounds, which would
    not change whatever is done to the network.
    """

    def scale(layer: nn.Module, seen: Any, result: torch.Tensor) -> torch.Tensor:
        del seen
        spread = result.std().clamp(min=1e-6) if layer not in done else torch.ones(())
        done.add(layer)
        for tensor in layer.parameters():
            tensor.div_(spread)
        return result / spread

    done: set[nn.Module] = set()
    layers = [part for part in network.modules() if isinstance(part, nn.Conv2d | nn.Linear)]
    hooks = [layer.register_forward_hook(scale) for layer in layers]
    with torch.no_grad():
        network(*inputs)
    for hook in hooks:
        hook.remove()


def _runs(make: Make, name: str, options: dict[str, Any], inputs: Any) -> bool:
    """Whether a network runs with some inputs, tried without memory for its numbers."""
    try:
        with torch.device("meta"), torch.no_grad():
            network = make(name, options).eval()
            network(*pytree.tree_map(lambda t: t.to("meta"), inputs))
    except NotImplementedError:
        return True  # it asks for numbers, so the sizes are right so far
    except Exception:
        return False
    return True


def _images(name: str) -> Iterator[tuple[dict[str, Any], Any]]:
    """Small images first: convolutions take any size, transformers have to be told."""
    import timm

    channels, *usual = timm.get_pretrained_cfg(name).input_size
    for size in [s for s in (96, 128, 192, 224) if s < usual[0]]:
        image = torch.randn(1, channels, size, size)
        yield {}, (image,)
        yield {"img_size": size}, (image,)
    yield {}, (torch.randn(1, channels, *usual),)


def _clip_or_image(name: str) -> Iterator[tuple[dict[str, Any], Any]]:
    """Detectors take lists, raft two images, video networks clips, the others an image."""
    if any(word in name for word in ("rcnn", "retinanet", "fcos", "ssd")):
        # Random networks are sure of no box: without a threshold there is an output.
        threshold = "box_score_thresh" if "rcnn" in name else "score_thresh"
        options = {threshold: 0.0} | ({} if name.startswith("ssd") else {"min_size": 128})
        yield options, ([torch.rand(3, 128, 128)],)
    elif name.startswith("raft"):
        yield {}, (torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128))
    elif any(word in name for word in ("mvit", "swin3d", "r3d", "mc3", "r2plus1d", "s3d")):
        for frames, size in ((8, 96), (16, 112), (16, 224)):
            yield {}, (torch.randn(1, 3, frames, size, size),)
    else:
        for size in (96, 112, 128, 224, 299):
            yield {}, (torch.randn(1, 3, size, size),)
            yield {"image_size": size}, (torch.randn(1, 3, size, size),)


def _timm(name: str, options: dict[str, Any]) -> nn.Module:
    import timm

    return timm.create_model(name, pretrained=False, **options)


def _torchvision(name: str, options: dict[str, Any]) -> nn.Module:
    from torchvision.models import get_model, get_model_builder

    known = set(inspect.signature(get_model_builder(name)).parameters)
    fixed: dict[str, Any] = {"weights": None, "weights_backbone": None}
    options = options | {key: value for key, value in fixed.items() if key in known}
    if "inception" in name or "googlenet" in name:
        options["init_weights"] = False
    return get_model(name, **options)
