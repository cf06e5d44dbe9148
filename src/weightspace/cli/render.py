"""The command ``weightspace render``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from weightspace.cli.output import say, write_bytes, write_json
from weightspace.errors import DataError, ModelError, require_between

if TYPE_CHECKING:
    from weightspace.cli.pictures import Shown

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
    """Show implicit networks: images, waves and sounds, solids; as PNG files of any resolution.

    Networks with two inputs are images. Those with one are drawn as waves, and written as WAV
    files where the zoo says that they are sounds. Those with three are solids: the surface where
    their first output is zero, and beside it the distances in a slice through the middle.

    Args:
        source: a zoo's folder, or a checkpoint file of one network.
        out: a folder for the pictures.
        height: rows of the pictures.
        width: columns; as many as rows if not given, for waves and solids twice as many.
        networks: which networks of a zoo.
        w0: the frequency of a checkpoint's sines; a zoo knows its own.
        offset: what a checkpoint's network adds to its output; a zoo knows its own.
        json: also write the list of files as JSON to this file.
    """
    from weightspace.cli.pictures import PICTURES
    from weightspace.zoo.render import spec_inputs

    require_between("height", height, 1, MOST_PIXELS)
    if width is not None:
        require_between("width", width, 1, MOST_PIXELS)
    if source.is_dir() and not networks:
        raise DataError("networks", expected="numbers of networks in the zoo", found="none")
    shown = _from_zoo(source, networks) if source.is_dir() else _from_file(source, w0, offset)
    draw = PICTURES.get(spec_inputs(shown.spec))
    if draw is None:
        raise ModelError(
            source,
            expected="networks with one input (a wave), two (an image) or three (a solid)",
            found=f"{spec_inputs(shown.spec)} inputs",
        )
    files = []
    for file in draw(shown, height, width):
        write_bytes(out / file.name, file.content)
        say(str(out / file.name))
        files.append(file)
    if json is not None:
        pictures = [file for file in files if file.name.endswith(".png")]
        write_json(
            json,
            {
                "images": [str(out / file.name) for file in pictures],
                "sounds": [str(out / file.name) for file in files if file not in pictures],
                "height": pictures[0].height,
                "width": pictures[0].width,
            },
        )


def _from_zoo(folder: Path, networks: tuple[int, ...]) -> Shown:
    from weightspace.cli.pictures import Shown
    from weightspace.zoo import Zoo

    zoo = Zoo.open(folder)
    domain, audio = zoo.recipe.get("domain", {}), zoo.recipe.get("audio", {})
    return Shown(
        zoo.spec,
        zoo.states(networks),
        tuple(f"{folder.name}-{network}" for network in networks),
        source=folder,
        low=domain.get("low", -1.0),
        high=domain.get("high", 1.0),
        seconds=audio["samples"] / audio["rate"] if audio else None,
    )


def _from_file(path: Path, w0: float, offset: float) -> Shown:
    from weightspace.cli.networks import read_chain
    from weightspace.cli.pictures import Shown
    from weightspace.graph import Activation

    chain = read_chain(path)
    spec = chain.to_spec(
        activations=Activation.of("sine", w0=w0), output=Activation.of("offset", value=offset)
    )
    state = {name: tensor[None] for name, tensor in chain.tensors.items()}
    return Shown(spec, state, (path.stem,), source=path)
