"""Files that show what implicit networks say: images, waves, sounds and solids."""

from __future__ import annotations

import io
import wave
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.errors import DataError, ModelError
from weightspace.graph import GraphSpec
from weightspace.report.waveform import waveform_png
from weightspace.zoo import render
from weightspace.zoo.render import evaluate
from weightspace.zoo.render_solids import render_slices, render_solids

RATE = 16000
"""Samples a second of sounds."""


@dataclass(frozen=True, eq=False)
class Shown:
    """Networks of one spec that are to be shown.

    Args:
        spec: a chain.
        state: the stacked state.
        names: the files' names without endings.
        source: where the networks are from, for errors.
        low: where signals in time begin.
        high: where they end.
        seconds: how long that is, if they are sounds.
    """

    spec: GraphSpec
    state: dict[str, Tensor]
    names: tuple[str, ...]
    source: Path
    low: float = -1.0
    high: float = 1.0
    seconds: float | None = None

    def each(self) -> Iterator[tuple[str, dict[str, Tensor]]]:
        """Name and state, one network after the other."""
        for number, name in enumerate(self.names):
            yield name, {key: tensor[number : number + 1] for key, tensor in self.state.items()}


@dataclass(frozen=True)
class ShownFile:
    """A file to be written.

    Args:
        name: with its ending.
        content: all of it.
        height: pixels, of a picture.
        width: pixels, of a picture.
    """

    name: str
    content: bytes
    height: int = 0
    width: int = 0


Draw = Callable[[Shown, int, int | None], Iterator[ShownFile]]


def draw_images(shown: Shown, height: int, width: int | None) -> Iterator[ShownFile]:
    """Images of networks with two inputs."""
    for name, state in shown.each():
        image = _finite(shown, render(shown.spec, state, height, width))[0]
        if image.shape[-1] not in (1, 3, 4):
            raise ModelError(
                shown.source,
                expected="networks with 1, 3 or 4 output channels",
                found=str(image.shape[-1]),
            )
        yield _png(name, image)


def draw_waves(shown: Shown, height: int, width: int | None) -> Iterator[ShownFile]:
    """Curves of networks with one input; sounds, too, if they are."""
    width = 2 * height if width is None else width
    times = torch.linspace(shown.low, shown.high, max(4 * width, 4096), dtype=torch.float64)
    label = "time in s" if shown.seconds else "x"
    places = (
        (times - shown.low) / (shown.high - shown.low) * shown.seconds if shown.seconds else times
    )
    for name, state in shown.each():
        values = _finite(shown, evaluate(shown.spec, state, times[:, None]))[0]
        if values.shape[-1] > 8:
            raise ModelError(
                shown.source, expected="at most 8 outputs to draw", found=str(values.shape[-1])
            )
        drawn = waveform_png(
            places.numpy(), values.double().numpy(), width=width, height=height, label=label
        )
        yield ShownFile(f"{name}.png", drawn, height, width)
        if shown.seconds:
            count = round(shown.seconds * RATE)
            heard = torch.linspace(shown.low, shown.high, count, dtype=torch.float64)
            sound = evaluate(shown.spec, state, heard[:, None])[0, :, 0]
            yield ShownFile(f"{name}.wav", wav_bytes(sound, RATE))


def draw_solids(shown: Shown, height: int, width: int | None) -> Iterator[ShownFile]:
    """Surfaces and slices of networks with three inputs."""
    if width not in (None, 2 * height):
        raise ModelError(
            "width", expected=f"{2 * height}: surface and slice side by side", found=str(width)
        )
    for name, state in shown.each():
        slices = _finite(shown, render_slices(shown.spec, state, height))
        solids = render_solids(shown.spec, state, height)
        yield _png(name, torch.cat([solids[0], slices[0]], dim=1))


PICTURES: dict[int, Draw] = {1: draw_waves, 2: draw_images, 3: draw_solids}
"""What draws networks, by the number of their inputs."""


def wav_bytes(sound: Float[Tensor, " samples"], rate: int) -> bytes:
    """A sound as a WAV file of 16-bit samples; values beyond -1 to 1 are clipped."""
    samples = (sound.double().clamp(-1, 1) * 32767).round().short().numpy()
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return buffer.getvalue()


def _png(name: str, image: Float[Tensor, "height width channels"]) -> ShownFile:
    from PIL import Image

    values = (image.clamp(0, 1) * 255).round().byte().numpy()
    buffer = io.BytesIO()
    Image.fromarray(values[..., 0] if values.shape[-1] == 1 else values).save(buffer, "PNG")
    return ShownFile(f"{name}.png", buffer.getvalue(), *image.shape[:2])


def _finite(shown: Shown, values: Tensor) -> Tensor:
    if not bool(values.isfinite().all()):
        raise DataError(
            shown.source, expected="networks with finite values", found="NaN or infinity"
        )
    return values
