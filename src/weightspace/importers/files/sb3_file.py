"""Archives of Stable-Baselines3 agents."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from weightspace.importers.files.archive import open_archive, read_member
from weightspace.importers.files.contents import Checkpoint, States
from weightspace.importers.files.magic import parse_json
from weightspace.importers.files.sorting import sort_groups, sort_states
from weightspace.importers.files.torch_file import load_torch


def read_sb3(path: Path) -> Checkpoint:
    """Read an agent: its policy, beside it its optimisers and other variables.

    The member ``data`` is JSON with pickles inside; its plain values are the config, its
    pickles stay text.

    Raises:
        FileError: a member is damaged or unsafe.
    """
    with open_archive(path, path) as archive:
        contents = {name: read_member(archive, name, path) for name in archive.namelist()}
    policy = sort_states(_load(contents["policy.pth"], f"{path}, member policy.pth"), path)
    others: States = dict(policy.others)
    config: dict[str, Any] = dict(policy.config)
    for name, content in contents.items():
        subject = f"{path}, member {name}"
        if name == "policy.pth":
            continue
        if name.endswith(".pth"):
            groups, plain = sort_groups(name.removesuffix(".pth"), _load(content, subject), subject)
            others |= groups
            config |= plain
        elif name == "data":
            config |= _plain(parse_json(path, content))
        elif len(content) < 4096:
            config[name] = content.decode("utf-8", "replace").strip()
    return Checkpoint(path, "sb3", policy.tensors, others, config, policy.prefix)


def _load(content: bytes, subject: object) -> object:
    return load_torch(io.BytesIO(content), subject)


def _plain(data: dict[str, object]) -> dict[str, object]:
    """The entries without a pickle in them."""
    return {
        key: value
        for key, value in data.items()
        if not (isinstance(value, dict) and ":serialized:" in value)
    }
