"""Random damage to real files of every format gives a checkpoint or a FileError, nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.importers.checkpoint_files import WRITERS, write_keras
from weightspace.errors import FileError
from weightspace.importers import Checkpoint, read_states

FUZZ = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)


def outcome(path: Path) -> Checkpoint | FileError:
    """Read a file as far as it goes; any exception but a FileError fails the test."""
    try:
        checkpoint = read_states(path)
    except FileError as error:
        return error
    assert all(tensor.cpu().contiguous() is not None for tensor in checkpoint.tensors.values())
    return checkpoint


@st.composite
def damage(draw: st.DrawFn, content: bytes) -> bytes:
    """Cut a file, flip bits, overwrite, insert or take out bytes."""
    kind = draw(st.sampled_from(["cut", "flip", "overwrite", "insert", "remove"]))
    place = draw(st.integers(0, len(content) - 1))
    noise = draw(st.binary(min_size=1, max_size=24))
    if kind == "cut":
        return content[:place]
    if kind == "insert":
        return content[:place] + noise + content[place:]
    if kind == "remove":
        return content[:place] + content[place + len(noise) :]
    if kind == "overwrite":
        return content[:place] + noise + content[place + len(noise) :]
    damaged = bytearray(content)
    for spot in draw(st.lists(st.integers(0, len(content) * 8 - 1), min_size=1, max_size=8)):
        damaged[spot // 8] ^= 1 << spot % 8
    return bytes(damaged)


@pytest.mark.parametrize("name", WRITERS)
@given(data=st.data())
@settings(FUZZ, max_examples=120)
def test_damaged_files(tmp_path: Path, name: str, data: st.DataObject) -> None:
    path = tmp_path / name
    if not (tmp_path / "whole").exists():
        WRITERS[name](path)
        path.rename(tmp_path / "whole")
    path.write_bytes(data.draw(damage((tmp_path / "whole").read_bytes())))
    outcome(path)


@given(data=st.data())
@settings(FUZZ, max_examples=12)
def test_damaged_keras_files(tmp_path: Path, data: st.DataObject) -> None:
    pytest.importorskip("h5py")
    if not (tmp_path / "whole").exists():
        write_keras(tmp_path / "whole")
    (tmp_path / "a.h5").write_bytes(data.draw(damage((tmp_path / "whole").read_bytes())))
    outcome(tmp_path / "a.h5")


HEADS = [
    b"",
    b"PK\x03\x04",
    b"\x80\x02",
    b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.",
    b"{",
    b"\x93",
]
HEADS += [bytes([length, 0, 0, 0, 0, 0, 0, 0]) + b"{" for length in (1, 8, 64)]


@given(head=st.sampled_from(HEADS), tail=st.binary(max_size=200))
@settings(FUZZ, max_examples=300)
def test_random_bytes(tmp_path: Path, head: bytes, tail: bytes) -> None:
    (tmp_path / "a.pt").write_bytes(head + tail)
    assert isinstance(outcome(tmp_path / "a.pt"), FileError)
