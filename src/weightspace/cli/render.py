"""The command ``weightspace render``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from weightspace.cli.output import say, write_json
from weightspace.errors import DataError, ModelError, require_between

if TYPE_CHECKING:
    from torch import Tensor

    from weightspace.graph import GraphSpec


MOST_PIXELS = 8192
"""The largest side of an image: its values take 256 MB a channel in single precision."""


def render(
    source: Positional[Path],
    *,
    out: Path = Path("rendered"),
    height: int = 256,
    width: int | None = None,
    networks: tuple[int, ...] = (0,),
    w0: float = 30.0,
    offset: float = 0.5,
    json: Path | None = None,
) -> None:
    """Render implicit networks as PNG images of any resolution.

    Args:
        source: a zoo's folder, or a checkpoint file of one network.
        out: a folder for the images.
        height: rows of the images.
        width: columns; as many as rows if not given.
        networks: which networks of a zoo.
        w0: the frequency of a checkpoint's sines; a zoo knows its own.
        offset: what a checkpoint's network adds to its output; a zoo knows its own.
        json: also write the list of images as JSON to this file.
    """
    from PIL import Image

    from weightspace.zoo import render as render_networks

    require_between("height", height, 1, MOST_PIXELS)
    require_between("width", height if width is None else width, 1, MOST_PIXELS)
    if source.is_dir() and not networks:
        raise DataError("networks", expected="numbers of networks in the zoo", found="none")
    if source.is_dir():
        spec, stacked = _from_zoo(source, networks)
        names = [f"{source.name}-{network}" for network in networks]
    else:
        spec, stacked = _from_file(source, w0=w0, offset=offset)
        names = [source.stem]
    images = render_networks(spec, stacked, height, width)
    if images.shape[-1] not in (1, 3, 4):
        raise ModelError(
            source, expected="networks with 1, 3 or 4 output channels", found=str(images.shape[-1])
        )
    if not bool(images.isfinite().all()):
        raise DataError(source, expected="networks with finite values", found="NaN or infinity")
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, image in zip(names, images, strict=True):
        values = (image.clamp(0, 1) * 255).round().byte().numpy()
        paths.append(out / f"{name}.png")
        Image.fromarray(values[..., 0] if values.shape[-1] == 1 else values).save(paths[-1])
        say(str(paths[-1]))
    if json is not None:
        write_json(
            json,
            {
                "images": [str(path) for path in paths],
                "height": images.shape[1],
                "width": images.shape[2],
            },
        )


def _from_zoo(folder: Path, networks: tuple[int, ...]) -> tuple[GraphSpec, dict[str, Tensor]]:
    from weightspace.zoo import Zoo

    zoo = Zoo.open(folder)
    return zoo.spec, zoo.states(networks)


def _from_file(path: Path, *, w0: float, offset: float) -> tuple[GraphSpec, dict[str, Tensor]]:
    from weightspace.cli.networks import read_chain
    from weightspace.graph import Activation

    chain = read_chain(path)
    spec = chain.to_spec(
        activations=Activation.of("sine", w0=w0), output=Activation.of("offset", value=offset)
    )
    return spec, {name: tensor[None] for name, tensor in chain.tensors.items()}
