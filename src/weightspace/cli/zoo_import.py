"""The command ``weightspace zoo import``: take in networks that were trained elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from weightspace.cli.output import say, write_json

if TYPE_CHECKING:
    from weightspace.graph import GraphSpec

if TYPE_CHECKING:
    from weightspace.graph import GraphSpec

LayoutName = Literal["auto", "checkpoints", "dwsnets", "small-cnn-zoo", "wild-park", "ray", "sb3"]


def import_folder(
    folder: Positional[Annotated[Path, arg(metavar="DIR")]],
    *,
    out: Path,
    labels: Path | None = None,
    layout: LayoutName = "auto",
    splits: Path | None = None,
    activation: str | None = None,
    duplicates: Literal["once", "mark"] = "once",
    module: str | None = None,
    inputs: str | None = None,
    workers: int = 1,
    json: Path | None = None,
) -> None:
    """Take in a folder of trained networks as a zoo.

    Files that cannot be read are skipped and reported. Interrupted or killed, the same
    command goes on where it stopped. Nothing in the files is executed.

    Args:
        folder: the networks, in any subfolders: torch, safetensors, npz, Keras, ONNX, agents.
        out: the zoo's folder.
        labels: a CSV or JSON file of labels, joined by path, name within a file, or file name.
        layout: how the folder is arranged.
        splits: a JSON or CSV file that says which networks are for training and test.
        activation: of all hidden layers, such as 'tanh', where the files do not tell.
        duplicates: keep networks with the same weights once, or mark the later ones.
        module: 'package.module:name' of a module that the networks belong to, where names and
            shapes do not tell the structure. Your own code, which is executed.
        inputs: the shapes of that module's inputs, such as "1,3,224,224".
        workers: processes that read files.
        json: also write what was found as JSON to this file.
    """
    from weightspace.cli.modules import example_tensors, import_module
    from weightspace.zoo.importing import ImportOptions, import_zoo

    specs: tuple[GraphSpec, ...] = ()
    if module is not None:
        from weightspace.importers import module_spec

        specs = (module_spec(import_module(module), example_tensors(inputs)),)
    options = ImportOptions(
        layout=layout,
        labels=labels,
        splits=splits,
        activation=activation,
        duplicates=duplicates,
        specs=specs,
        workers=workers,
    )
    zoo, report = import_zoo(folder, out, options=options)
    say(f"{zoo} in {out}\n{report}")
    if json is not None:
        write_json(json, {"path": str(out), **report.to_dict()})
