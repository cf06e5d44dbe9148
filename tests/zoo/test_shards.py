from __future__ import annotations

import json
import os
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import deserialize
from safetensors.torch import save

from tests.zoo.zoos import SIREN, random_states, with_counter
from weightspace.errors import FileError, StateError
from weightspace.graph import chain_spec
from weightspace.zoo.shards import DTYPES, Run, read_layout, read_rows, shard_bytes

VALID = save({"a": torch.arange(6.0).reshape(3, 2), "b": torch.tensor([1, 2, 3])})
HEADER_END = 8 + int.from_bytes(VALID[:8], "little")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("shards") / "x.safetensors"


def agrees_with_safetensors(file, content: bytes) -> bool:
    """Whether our reader takes the file; if so, the library must and see the same bytes."""
    file.write_bytes(content)
    try:
        layout = read_layout(file)
    except FileError:
        return False
    for name, entry in deserialize(content):
        place = layout.tensors[name]
        assert list(place.shape) == entry["shape"]
        assert DTYPES[entry["dtype"]] == place.dtype
        if place.shape and place.shape[0]:
            view = memoryview(bytearray(place.shape[0] * place.row_bytes))
            read_rows(layout, [Run(0, place.shape[0], 0)], {name: view})
            assert bytes(view) == bytes(entry["data"])
    return True


def header_of(entries: object, body: int) -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + bytes(body)


def test_a_valid_file(file):
    assert agrees_with_safetensors(file, VALID)
    layout = read_layout(file)
    assert layout.tensors["a"].shape == (3, 2)
    assert layout.tensors["a"].row_bytes == 8
    out = bytearray(24)
    read_rows(layout, [Run(2, 1, 0), Run(0, 2, 1)], {"a": memoryview(out)})
    assert struct.unpack("<6f", out) == (4, 5, 0, 1, 2, 3)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes(file, content):
    agrees_with_safetensors(file, content)


@settings(deadline=None)
@given(st.integers(0, HEADER_END - 1), st.integers(1, 255))
def test_changed_header_bytes(file, place, change):
    content = bytearray(VALID)
    content[place] ^= change
    agrees_with_safetensors(file, bytes(content))


@pytest.mark.parametrize("length", range(len(VALID)))
def test_every_truncation(file, length):
    assert not agrees_with_safetensors(file, VALID[:length])


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=40))
def test_bytes_too_many(file, more):
    assert not agrees_with_safetensors(file, VALID + more)


NUMBERS = st.integers(-2, 30) | st.sampled_from([2**31, 2**63, 2**64, 10**30, 1.0, True, None, "1"])
ENTRIES = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "U8", "I64", "F4", "f32", "", 3]),
        "shape": st.lists(NUMBERS, max_size=3),
        "data_offsets": st.lists(NUMBERS, max_size=3),
    },
    optional={"more": st.none()},
)


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=3), ENTRIES | NUMBERS, max_size=3), st.integers(0, 40))
def test_made_up_headers(file, entries, body):
    agrees_with_safetensors(file, header_of(entries, body))


@settings(deadline=None)
@given(st.data())
def test_made_up_headers_that_nearly_fit(file, data):
    start, entries = 0, {}
    for name in data.draw(st.sampled_from(["a", "ab", "abc"])):
        shape = data.draw(st.lists(st.integers(0, 4), max_size=2))
        size = 4 * torch.Size(shape).numel() + data.draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
        entries[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, start + size]}
        start += size + data.draw(st.sampled_from([0, 0, 0, 0, 4, -4]))
    agrees_with_safetensors(file, header_of(entries, max(start, 0)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "header of 0 bytes in a file of 0 bytes"),
        (struct.pack("<Q", 2**62) + b"{}", "header of 4611686018427387904 bytes"),
        (header_of([], 0), "JSON object"),
        (header_of({"__metadata__": {"a": 1}}, 0), "__metadata__"),
        (struct.pack("<Q", 4) + b"\xff\xff{}", "unreadable text"),
        (struct.pack("<Q", 200_000) + b"[" * 200_000, "unreadable text"),
        (struct.pack("<Q", 16) + b'{"a":{},"a":{}} ', "a key stands twice"),
        (struct.pack("<Q", 9) + b'{"a":NaN}', "NaN is not JSON"),
    ],
)
def test_what_is_said_of_broken_headers(file, content, message):
    file.write_bytes(content)
    with pytest.raises(FileError, match=message):
        read_layout(file)


def test_missing_files_and_folders(tmp_path):
    for path in (tmp_path, tmp_path / "x"):
        with pytest.raises(FileError, match="expected a file, found none"):
            read_layout(path)


# -- writing -----------------------------------------------------------------------------


def test_shards_are_plain_safetensors():
    spec = with_counter(SIREN)
    states = random_states(spec, 3)
    found = dict(deserialize(shard_bytes(spec, states)))
    assert found.keys() == states.keys()
    for name, tensor in states.items():
        assert bytes(found[name]["data"]) == tensor.numpy().tobytes()


def test_views_of_one_buffer_are_written_apart():
    spec = chain_spec([2, 1])
    flat = torch.arange(12.0).reshape(4, 3)
    states = {"0.weight": flat[:, None, :2], "0.bias": flat[:, 2:]}
    found = dict(deserialize(shard_bytes(spec, states)))
    for name, tensor in states.items():
        assert bytes(found[name]["data"]) == tensor.contiguous().numpy().tobytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda s: {k: v for k, v in s.items() if k != "0.bias"},
        lambda s: {**s, "more": s["0.bias"]},
        lambda s: {**s, "0.bias": s["0.bias"][:, :3]},
        lambda s: {**s, "0.bias": s["0.bias"][:2]},
        lambda s: {**s, "0.bias": s["0.bias"].double()},
    ],
)
def test_states_of_another_spec_are_refused(change):
    with pytest.raises(StateError, match="expected"):
        shard_bytes(SIREN, change(random_states(SIREN, 3)))


def test_types_that_safetensors_lacks_are_refused():
    spec = chain_spec([2, 1], dtype="complex128")
    with pytest.raises(StateError, match="complex128"):
        shard_bytes(spec, random_states(spec, 2))


# -- reading in pieces -------------------------------------------------------------------


def test_reads_that_come_in_pieces(file, monkeypatch):
    file.write_bytes(VALID)
    whole = os.preadv

    def short(descriptor, buffers, offset):
        return whole(descriptor, [buffers[0][:5]], offset)

    monkeypatch.setattr(os, "preadv", short)
    out = bytearray(24)
    read_rows(read_layout(file), [Run(0, 3, 0)], {"a": memoryview(out)})
    assert struct.unpack("<6f", out) == (0, 1, 2, 3, 4, 5)


def test_a_file_cut_between_two_reads_is_an_error(file, monkeypatch):
    file.write_bytes(VALID)
    monkeypatch.setattr(os, "preadv", lambda *_: 0)
    with pytest.raises(FileError, match="another length"):
        read_rows(read_layout(file), [Run(0, 3, 0)], {"a": memoryview(bytearray(24))})
