"""Files that are damaged, made to deceive, or not checkpoints at all."""

from __future__ import annotations

import io
import json
import os
import pickle
import resource
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.importers.checkpoint_files import STATE, WRITERS
from weightspace.errors import FileError
from weightspace.importers import read_states


class Attack:
    """Writes a file when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.trace}",)


def refuse(path: Path, *words: str) -> str:
    with pytest.raises(FileError) as caught:
        read_states(path)
    message = str(caught.value)
    for word in (path.name, *words):
        assert word in message
    return message


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("protocol", [2, 4])
def test_a_malicious_torch_pickle_runs_nothing(tmp_path: Path, legacy: bool, protocol: int) -> None:
    trace = tmp_path / "trace"
    torch.save(
        {"a": torch.ones(1), "b": Attack(trace)},
        tmp_path / "a.pt",
        pickle_protocol=protocol,
        _use_new_zipfile_serialization=not legacy,
    )
    message = refuse(tmp_path / "a.pt", "refused before anything in it ran", "state_dict()")
    # Newer protocols are refused at the first instruction, before the names in legacy files.
    assert (legacy and protocol == 4) or "posix.system" in message or "nt.system" in message
    assert not trace.exists()


def test_malicious_pickles_elsewhere_run_nothing(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    (tmp_path / "plain.pkl").write_bytes(pickle.dumps(Attack(trace)))
    refuse(tmp_path / "plain.pkl", "not opened")
    np.savez(tmp_path / "a.npz", a=np.array([Attack(trace)], dtype=object))
    refuse(tmp_path / "a.npz", "Python objects")
    with zipfile.ZipFile(tmp_path / "sb3.zip", "w") as archive:
        buffer = io.BytesIO()
        torch.save({"a": Attack(trace)}, buffer)
        archive.writestr("policy.pth", buffer.getvalue())
    refuse(tmp_path / "sb3.zip", "policy.pth", "refused")
    WRITERS["a.zip"](tmp_path / "good.zip")
    with zipfile.ZipFile(tmp_path / "good.zip", "a") as archive:
        archive.writestr("data.pkl", pickle.dumps(Attack(trace)))
        archive.writestr("x/data.pkl", pickle.dumps(Attack(trace)))
    read_states(tmp_path / "good.zip")
    assert not trace.exists()


def test_a_whole_module_asks_for_its_state_dict(tmp_path: Path) -> None:
    torch.save(nn.Sequential(nn.Linear(1, 1)), tmp_path / "a.pt")
    message = refuse(tmp_path / "a.pt", "a whole pickled module", "module.state_dict()")
    assert "torch.nn.modules.container.Sequential" in message


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_torchscript_is_named(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.trace(nn.Linear(1, 1), torch.ones(1, 1)), tmp_path / "a.pt")
    refuse(tmp_path / "a.pt", "TorchScript", "torch.jit.load")


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(2, 2).to_sparse(),
        lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        lambda: torch.empty(2, device="meta"),
    ],
    ids=["sparse", "quantised", "meta"],
)
@pytest.mark.filterwarnings("ignore")
def test_extraordinary_tensors_are_named(tmp_path: Path, make: Callable[[], torch.Tensor]) -> None:
    torch.save({"a": make()}, tmp_path / "a.pt")
    refuse(tmp_path / "a.pt", "rebuild_")


def test_no_tensors_and_strange_entries(tmp_path: Path) -> None:
    torch.save({"epoch": 3}, tmp_path / "a.pt")
    refuse(tmp_path / "a.pt", "tensors of a network", "only int")
    torch.save({}, tmp_path / "a.pt")
    refuse(tmp_path / "a.pt", "only nothing")
    torch.save(7, tmp_path / "a.pt")
    refuse(tmp_path / "a.pt", "a dictionary of tensors", "a int")
    torch.save({"a": torch.ones(1), "b": torch.ones(1).untyped_storage()}, tmp_path / "a.pt")
    refuse(tmp_path / "a.pt", "an entry of type")
    np.savez(tmp_path / "a.npz", a=np.array(["text"]))
    refuse(tmp_path / "a.npz", "only text")
    np.savez(tmp_path / "a.npz", a=np.zeros(2, dtype="datetime64[s]"))
    refuse(tmp_path / "a.npz", "type datetime64")


def test_not_a_file(tmp_path: Path) -> None:
    refuse(tmp_path / "missing.pt", "no such file")
    refuse(tmp_path, "a folder")
    WRITERS["model.safetensors.index.json"](tmp_path / "model.safetensors.index.json")
    refuse(tmp_path, "such as model.safetensors.index.json")
    os.mkfifo(tmp_path / "pipe")
    refuse(tmp_path / "pipe", "a regular file")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"<!DOCTYPE html>", "web page"),
        (b"GGUF\x03\x00\x00\x00", "GGUF"),
        (b"\x00" * 600, "content that begins with"),
        (b"{", "JSON"),
        (b"[" * 100, "content that begins with"),
        (b'{"a":' * 100_000, "JSON"),
        (b"PK\x03\x04", "zip archive"),
        (b"PK\x05\x06" + bytes(18), "a zip of nothing"),
        (b"\x80\x02", "pickle"),
        (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "torch checkpoint"),
        (b"\x89HDF\r\n\x1a\n" + bytes(50), "HDF5"),
    ],
)
def test_other_content_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "a.pt").write_bytes(content)
    refuse(tmp_path / "a.pt", words)


def test_tar_files_of_early_torch_are_named(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.pt", "w") as tar:
        tar.addfile(tarfile.TarInfo("storages"))
    refuse(tmp_path / "a.pt", "tar archive")


def memory_peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def rewrite_pickle(path: Path, old: bytes, new: bytes) -> None:
    """Change the pickle within a zip of torch.save."""
    with zipfile.ZipFile(path) as archive:
        members = {item: archive.read(item) for item in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for item, content in members.items():
            is_pickle = item.filename.endswith("data.pkl")
            assert not is_pickle or old in content
            archive.writestr(item.filename, content.replace(old, new, 1) if is_pickle else content)


def test_declared_sizes_are_checked_before_memory_is_taken(tmp_path: Path) -> None:
    before = memory_peak()
    huge = struct.pack("<Q", 1 << 38)
    (tmp_path / "a.safetensors").write_bytes(huge + b'{"a":')
    refuse(tmp_path / "a.safetensors", "declared header of")
    header = b'{"a":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}}'
    (tmp_path / "b.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    refuse(tmp_path / "b.safetensors", "safetensors")
    # A numel of 4 becomes 2^31 - 1: first the storage's, then the tensor's.
    torch.save({"a": torch.ones(4)}, tmp_path / "a.pt")
    rewrite_pickle(tmp_path / "a.pt", b"K\x04t", b"J\xff\xff\xff\x7ft")
    refuse(tmp_path / "a.pt", "8589934588 bytes, as its pickle declares", "16 bytes")
    torch.save({"a": torch.ones(4)}, tmp_path / "a.pt")
    rewrite_pickle(tmp_path / "a.pt", b"K\x04\x85", b"J\xff\xff\xff\x7f\x85")
    refuse(tmp_path / "a.pt", "within the 16 bytes of its storage")
    torch.save({"a": torch.ones(4)}, tmp_path / "l.pt", _use_new_zipfile_serialization=False)
    content = (tmp_path / "l.pt").read_bytes()
    (tmp_path / "l.pt").write_bytes(content.replace(b"K\x04N", b"J\xff\xff\xff\x7fN"))
    refuse(tmp_path / "l.pt", "as its pickle declares")
    assert memory_peak() - before < 100 << 20


def test_a_tensor_of_endless_repetition_is_refused(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(1).expand(1 << 40)}, tmp_path / "a.pt")
    refuse(tmp_path / "a.pt", "repeated values")
    torch.save({"a": torch.ones(1).expand(1 << 10)}, tmp_path / "b.pt")
    assert read_states(tmp_path / "b.pt").tensors["a"].shape == (1 << 10,)


def test_zip_bombs_are_refused(tmp_path: Path) -> None:
    before = memory_peak()
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        header = io.BytesIO()
        shape = {"descr": "<f4", "fortran_order": False, "shape": (64 << 20,)}
        np.lib.format.write_array_header_1_0(header, shape)
        with archive.open("a.npy", "w", force_zip64=True) as file:
            file.write(header.getvalue())
            for _ in range(256):
                file.write(bytes(1 << 20))
    refuse(tmp_path / "a.npz", "zip bomb")
    assert memory_peak() - before < 100 << 20


def test_overlapping_and_doubled_members_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", bytes(2000))
        for number in range(5):
            info = zipfile.ZipInfo(f"b{number}.npy")
            info.file_size = info.compress_size = 2000
            info.CRC, info.header_offset = archive.infolist()[0].CRC, 0
            archive.filelist.append(info)
    refuse(tmp_path / "a.npz", "declared", "overlap")
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        archive.writestr("a.npy", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.npy", b"2")
    refuse(tmp_path / "b.npz", "'a.npy' twice")


def test_numpy_headers_must_agree_with_their_bytes(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "<f4", "fortran_order": False, "shape": (1 << 50,)}
    )
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", buffer.getvalue() + bytes(16))
    refuse(tmp_path / "a.npz", "array 'a'", "bytes for shape")


def nested(levels: int, pickle_code: bytes) -> bytes:
    """The pickle of ``levels`` containers, one in another."""
    return b"\x80\x02" + pickle_code * levels + b"."


def test_deep_and_endless_pickles_are_refused(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(1)}, tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "a.pt") as archive:
        (pickled,) = [archive.read(n) for n in archive.namelist() if n.endswith("data.pkl")]

    def replace(content: bytes) -> None:
        torch.save({"a": torch.ones(1)}, tmp_path / "a.pt")
        rewrite_pickle(tmp_path / "a.pt", pickled, content)

    # A tuple of a million levels as a key would overflow the C stack when it is hashed.
    replace(b"\x80\x02}" + b")" + b"\x85" * 1_000_000 + b"K\x01s.")
    refuse(tmp_path / "a.pt", "nested more than")
    replace(b"\x80\x02" + b"]" * 5000 + b"a" * 4999 + b".")
    refuse(tmp_path / "a.pt")
    # A list that holds itself, and thirty doublings of a list.
    replace(b"\x80\x02}X\x01\x00\x00\x00a]q\x00h\x00as.")
    refuse(tmp_path / "a.pt", "entries")
    double = b"".join(b"]q%c(h%ch%ce" % (n, n - 1, n - 1) for n in range(1, 40))
    replace(b"\x80\x02]q\x00" + double + b".")
    refuse(tmp_path / "a.pt")


def test_calls_beyond_tensors_are_refused(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(1)}, tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "a.pt") as archive:
        (pickled,) = [archive.read(n) for n in archive.namelist() if n.endswith("data.pkl")]
    for code in (
        b"cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R",
        b"ctorch\nFloatTensor\nJ\xff\xff\xff\x7f\x85R",
        b"ctorch.storage\nUntypedStorage\nJ\xff\xff\xff\x7f\x85R",
        b"ctorch\nSize\n)\x81",
        b"c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00zip\x86R",
        b"ccollections\nCounter\n)R}b",
    ):
        torch.save({"a": torch.ones(1)}, tmp_path / "a.pt")
        rewrite_pickle(tmp_path / "a.pt", pickled, b"\x80\x02" + code + b".")
        refuse(tmp_path / "a.pt", "refused")


def test_shards_stay_in_their_folder(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    WRITERS["a.safetensors"](tmp_path / "a.safetensors")
    path = tmp_path / "inner" / "model.safetensors.index.json"
    for shard in ("../a.safetensors", str(tmp_path / "a.safetensors"), "..", "..\\a.safetensors"):
        path.write_text(json.dumps({"weight_map": {"x": shard}}))
        refuse(path, "own folder")
    path.write_text(json.dumps({"weight_map": {"x": "gone.safetensors"}}))
    refuse(path, "gone.safetensors", "Download every shard")
    WRITERS["a.safetensors"](tmp_path / "inner" / "a.safetensors")
    path.write_text(json.dumps({"weight_map": {"x": "a.safetensors"}}))
    refuse(path, "tensor 'x'")
    path.write_text(json.dumps({"architectures": ["Llama"]}))
    refuse(path, "weight_map")


def test_keras_files_hold_their_own_values(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["a/kernel:0"] = np.ones((2, 2))
        file["link"] = h5py.ExternalLink("/etc/hostname", "/")
    refuse(path, "ExternalLink")
    with h5py.File(path, "w") as file:
        (tmp_path / "secret").write_bytes(bytes(64))
        outside = [(str(tmp_path / "secret"), 0, 64)]
        file.create_dataset("kernel:0", (8,), dtype="f8", external=outside)
    refuse(path, "values are elsewhere")
    with h5py.File(path, "w") as file:
        file.create_dataset("kernel:0", (1 << 30, 1 << 10), dtype="f8", chunks=(1, 1 << 10))
    refuse(path, "declared")
    with h5py.File(path, "w") as file:
        file["text"] = "abc"
    refuse(path, "text of type")


def test_keras_files_without_h5py_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    refuse(tmp_path / "a.h5", "pip install 'weightspace[keras]'")


def test_keras_files_that_never_end_are_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = tmp_path / "endless.py"
    endless.write_text("while True:\n    pass\n")
    monkeypatch.setattr("weightspace.importers.files.keras_file.CHILD", endless)
    monkeypatch.setattr("weightspace.importers.files.keras_file.SECONDS", 0.2)
    (tmp_path / "a.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    refuse(tmp_path / "a.h5", "it took too long")


def test_cut_files_are_refused(tmp_path: Path) -> None:
    for name, write in WRITERS.items():
        write(tmp_path / name)
        content = (tmp_path / name).read_bytes()
        for length in (1, len(content) // 2, len(content) - 1):
            (tmp_path / name).write_bytes(content[:length])
            refuse(tmp_path / name)


def test_the_order_of_names_is_kept(tmp_path: Path) -> None:
    torch.save(dict(reversed(STATE.items())), tmp_path / "a.pt")
    assert list(read_states(tmp_path / "a.pt").tensors) == list(reversed(STATE))
