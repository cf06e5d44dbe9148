"""A job's folder belongs to its settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weightspace.train.claiming import claim_folder, zoo_hash
from weightspace.zoo import Zoo


def claim_job(
    job: Path, zoo: Zoo, plan: Mapping[str, Any], method: str, options: Mapping[str, Any]
) -> None:
    """Keep a job's settings in its folder, so that no other training goes on there.

    Args:
        job: the folder.
        zoo: the networks.
        plan: the preset's settings; the options of further models, under ``models``, do not
            count.
        method: the model's name.
        options: the model's options.

    Raises:
        FileError: the folder holds a training with other settings.
    """
    decisive = {key: str(value) for key, value in plan.items() if key != "models"}
    claim_folder(
        job, {**decisive, "zoo": zoo_hash(zoo), "model": method, "options": str(dict(options))}
    )
