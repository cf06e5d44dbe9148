"""The commands ``weightspace zoo ...``: make zoos, look at them, check them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from weightspace.cli.output import say, show_table, write_json

Variant = Literal["published", "published-exact", "textbook"]


def fit_inrs(
    images: Annotated[Path | None, arg(metavar="FILE.npz")] = None,
    *,
    out: Path = Path("inr-zoo"),
    hidden: tuple[int, ...] = (32, 32),
    variant: Variant = "published",
    steps: int = 100,
    learning_rate: float = 3e-3,
    target_psnr: float | None = None,
    refits: int = 1,
    validation: float = 0.1,
    train_images: int | None = None,
    test_images: int | None = None,
    seed: int = 0,
    workers: int = 0,
    json: Path | None = None,
) -> None:
    """Fit a SIREN to every image of a data set and keep them as a zoo.

    Interrupted or killed, the same command goes on where it stopped.

    Args:
        images: an .npz file with x_train, y_train, x_test, y_test; scikit-learn's digits if
            not given.
        out: the zoo's folder.
        hidden: sizes of the hidden layers.
        variant: initialisation, frequencies and output offset. With 'published' the weights
            alone can be read; 'published-exact' is that corpus to the letter, blurred unless
            it gets thousands of steps; 'textbook' is sharpest and its weights hardly tell.
        steps: the most updates a network gets.
        learning_rate: of Adam.
        target_psnr: a network that has reached this many decibels stops.
        refits: networks for each image, from different seeds.
        validation: the share of training images set aside for validation.
        train_images: how many training images to take; all if not given.
        test_images: how many test images to take; all if not given.
        seed: of validation images and every network's own seed.
        workers: processes; 0 for one each core.
        json: also write what was made as JSON to this file.
    """
    from weightspace.cli.images import read_images
    from weightspace.zoo import InrRecipe, fit_inr_zoo
    from weightspace.zoo.inr_recipe import VARIANTS

    recipe = InrRecipe(
        hidden=hidden,
        variant=VARIANTS[variant],
        steps=steps,
        learning_rate=learning_rate,
        target_psnr=target_psnr,
        refits=refits,
        seed=seed,
        validation=validation,
    )
    chosen = read_images(images, train=train_images, test=test_images, seed=seed)
    zoo = fit_inr_zoo(chosen, out, recipe=recipe, workers=workers)
    psnr = zoo.column("psnr")
    say(f"{zoo} in {out}: {psnr.mean():.1f} dB on average, {psnr.min():.1f} dB at worst")
    if json is not None:
        write_json(
            json,
            {
                "path": str(out),
                "networks": len(zoo),
                "splits": dict(zoo.splits),
                "psnr_db": float(psnr.mean()),
                "psnr_db_min": float(psnr.min()),
            },
        )


def info(zoo: Positional[Path], *, json: Path | None = None) -> None:
    """Show what a zoo holds: networks, architectures, columns, recipe.

    Args:
        zoo: the zoo's folder.
        json: also write it as JSON to this file.
    """
    from weightspace.zoo import Zoo

    opened = Zoo.open(zoo)
    say(f"{opened}\n")
    for spec in opened.specs:
        say(f"{spec}\n")
    schema = opened.metadata.schema
    show_table(
        "columns",
        ["name", "type", "example"],
        [
            [name, schema.field(name).type, opened.metadata.column(name)[0] if len(opened) else "-"]
            for name in schema.names
        ],
    )
    show_table("recipe", ["option", "value"], opened.recipe.items())
    if json is not None:
        write_json(
            json,
            {
                "path": str(zoo),
                "networks": len(opened),
                "splits": dict(opened.splits),
                "specs": [spec.fingerprint for spec in opened.specs],
                "parameters": [spec.parameter_count for spec in opened.specs],
                "columns": {name: str(schema.field(name).type) for name in schema.names},
                "recipe": opened.recipe,
                "provenance": opened.provenance,
            },
        )


def verify(zoo: Positional[Path], *, json: Path | None = None) -> None:
    """Check every file of a zoo: contents, shapes, hashes, finite weights, splits.

    Ends with exit code 2 if something is wrong.

    Args:
        zoo: the zoo's folder.
        json: also write the findings as JSON to this file.
    """
    from weightspace.zoo import verify as check

    report = check(zoo)
    say(str(report))
    if json is not None:
        write_json(json, report.to_dict())
    if not report.ok:
        sys.exit(2)
