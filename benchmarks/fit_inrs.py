"""How fast SIRENs are fitted to images, against fitting them one after the other.

Both sides fit the same networks (2-32-32-1, same initial values, same images) by the same
optimiser with the same number of steps, in one process and on one thread, taking turns. The
reference is a plain module with autograd and PyTorch's fused Adam.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from harness import compare, parser, report, seconds
from weightspace.zoo.coordinates import pixel_grid
from weightspace.zoo.images import digits_images, load_images
from weightspace.zoo.inr_fit import LEARNING_RATE, FittedInrs, fit_inrs
from weightspace.zoo.siren import PUBLISHED, TEXTBOOK, Siren, SirenVariant
from weightspace.zoo.workers import available_cores, run_tasks

HIDDEN = (32, 32)
_DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data"


def main() -> None:
    """Measure, print and write the figures."""
    options = parser(__doc__)
    options.add_argument("--networks", type=int, default=64)
    options.add_argument("--reference-networks", type=int, default=4)
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--repeats", type=int, default=5)
    given = options.parse_args()
    torch.set_num_threads(1)
    name, images = mnist_images(given.networks)
    few = images[: given.reference_networks]
    ours, theirs = compare(
        lambda: fit(images, given.steps),
        lambda: one_by_one(few, given.steps),
        repeats=given.repeats,
    )
    work, reference_work = len(images) * given.steps, len(few) * given.steps
    results: dict[str, float | int | str] = {
        "images": name,
        "networks": len(images),
        "steps": given.steps,
        "ratio": (theirs / reference_work) / (ours / work),
        "psnr_db": float(fit(images, given.steps).psnr.mean()),
        "psnr_db_reference": float(one_by_one(few, given.steps).mean()),
        "psnr_db_on_reference_images": float(fit(few, given.steps).psnr.mean()),
        "ms_per_network_step": 1e3 * ours / work,
        "ms_per_network_step_reference": 1e3 * theirs / reference_work,
        "networks_per_second": len(images) / ours,
    }
    results |= other_figures(images, given.steps)
    report("Fitting SIRENs 2-32-32-1 to images", results, given.json)


def other_figures(images: Tensor, steps: int) -> dict[str, float]:
    """Several processes, small images, and what the published corpus' variant gives."""
    digits = digits_images().train[:256]
    published = fit(images, steps, PUBLISHED)
    deviations = {
        f"published_{name}_std": float(tensor.std()) for name, tensor in published.state.items()
    }
    return {
        "networks_per_second_all_cores": all_cores(images, steps),
        "digits_networks_per_second": len(digits) / seconds(lambda: fit(digits, steps), repeats=3),
        "published_psnr_db": float(published.psnr.mean()),
        **deviations,
    }


def all_cores(images: Tensor, steps: int) -> float:
    """Networks per second with one process a core, once they are running."""
    workers = available_cores()
    tasks = [(images.numpy(), steps)] * (6 * workers)
    results = run_tasks(_fit_elsewhere, tasks, workers=workers)
    for _ in range(2 * workers):
        next(results)
    return 4 * workers * len(images) / seconds(lambda: list(results), repeats=1, warmup=0)


def _fit_elsewhere(task: tuple[object, int]) -> int:
    images, steps = task
    fit(torch.as_tensor(images), steps)
    return len(torch.as_tensor(images))


def fit(images: Tensor, steps: int, variant: SirenVariant = TEXTBOOK) -> FittedInrs:
    """All networks at once."""
    return fit_inrs(
        images,
        seeds=range(len(images)),
        hidden=HIDDEN,
        variant=variant,
        steps=steps,
        learning_rate=LEARNING_RATE,
    )


def one_by_one(images: Tensor, steps: int) -> Tensor:
    """One network after the other; their peak signal-to-noise ratios."""
    _, height, width, channels = images.shape
    grid = pixel_grid(height, width)
    ratios = []
    for seed, image in enumerate(images):
        target = image.reshape(-1, channels)
        module = Siren([2, *HIDDEN, channels], TEXTBOOK, seed=seed)
        optimiser = torch.optim.Adam(module.parameters(), lr=LEARNING_RATE, fused=True)
        for _ in range(steps):
            optimiser.zero_grad()
            F.mse_loss(module(grid), target).backward()
            optimiser.step()
        with torch.no_grad():
            ratios.append(-10 * torch.log10(F.mse_loss(module(grid), target)))
    return torch.stack(ratios)


def mnist_images(count: int) -> tuple[str, Tensor]:
    """Training images of MNIST, or digits enlarged to its size where it is not at hand."""
    path = Path(os.environ.get("WEIGHTSPACE_DATA") or _DEFAULT) / "images" / "mnist.npz"
    if path.exists():
        return "MNIST 28x28", load_images(path).train[:count]
    small = digits_images().train[:count].permute(0, 3, 1, 2)
    large = F.interpolate(small, size=28, mode="bicubic", align_corners=True).clamp(0, 1)
    return "digits enlarged to 28x28 (no MNIST found)", large.permute(0, 2, 3, 1).contiguous()


if __name__ == "__main__":
    main()
