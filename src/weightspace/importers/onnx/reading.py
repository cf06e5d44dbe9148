"""Reading ONNX files without trusting them: sizes, shapes and paths are checked first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from weightspace.errors import FileError
from weightspace.importers.files.guard import reading

if TYPE_CHECKING:
    import onnx

_LARGEST = 2**31 - 1
_OTHERS = {
    b"PK\x03\x04": "a zip archive (torch.save, .npz)",
    b"\x89HDF": "an HDF5 file",
    b"\x80\x02": "a Python pickle",
    b"\x80\x04": "a Python pickle",
    b"GGUF": "a GGUF file",
    b"\x1f\x8b": "a gzip file",
    b"<": "a web page or XML file",
    b"{": "a JSON file",
    b"version https://git-lfs": "a Git LFS pointer, not the file itself",
}


def read_model(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """Read an ONNX file, its external data included; nothing in it is executed.

    Args:
        path: the file; external data must lie in the same folder or below it.

    Raises:
        FileError: the file is missing, damaged, no ONNX model, or points outside its folder.
    """
    path = Path(path)
    content = _content(path)
    package = _package()
    with reading(path, "an ONNX model"):
        model: onnx.ModelProto = package.ModelProto()
        model.ParseFromString(content)
        del content
        if not model.ir_version or not model.graph.node:
            raise FileError(
                path, expected="an ONNX model", found="no graph in it",
                hint="The content decides, not the name: is it another kind of file?",
            )  # fmt: skip
        if model.functions:
            from onnx import inliner  # noqa: PLC0415 (an extra)

            model = inliner.inline_local_functions(model)
        for graph in graphs_of(model.graph):
            if graph.sparse_initializer:
                raise FileError(path, expected="dense initializers", found="sparse ones")
        for tensor in tensors_of(model.graph):
            _fill(path, tensor)
    return model


def _package() -> ModuleType:
    """The package onnx, or an error that says how to install it."""
    try:
        import onnx  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise FileError(
            "package onnx", expected="it installed, to read ONNX files", found="no such package",
            hint='pip install "weightspace[onnx]"',
        ) from error  # fmt: skip
    return onnx


def _content(path: Path) -> bytes:
    if not path.exists():
        raise FileError(path, expected="an ONNX model", found="no such file")
    if not path.is_file():
        raise FileError(path, expected="an ONNX model", found="a folder, device or pipe")
    size = path.stat().st_size
    if size == 0:
        raise FileError(path, expected="an ONNX model", found="an empty file")
    if size > _LARGEST:
        raise FileError(
            path, expected="an ONNX model of at most 2 GiB", found=f"{size:,} bytes",
            hint="Larger models keep their weights in external data files.",
        )  # fmt: skip
    content = path.read_bytes()
    for magic, what in _OTHERS.items():
        if content.startswith(magic) or content[: len(magic) + 64].lstrip().startswith(magic):
            raise FileError(path, expected="an ONNX model", found=what)
    return content


def graphs_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph and every graph inside it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from graphs_of(inner)


def tensors_of(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Every tensor in a graph: initializers and attributes, inner graphs included."""
    for one in graphs_of(graph):
        yield from one.initializer
        for node in one.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors


def _fill(path: Path, tensor: onnx.TensorProto) -> None:
    """Check that a tensor has the data that its shape declares, and bring external data in."""
    import onnx  # noqa: PLC0415 (an extra)
    from onnx import helper  # noqa: PLC0415

    subject = f"{path}, tensor {tensor.name!r}"
    if any(n < 0 for n in tensor.dims):
        raise FileError(subject, expected="sizes of at least 0", found=str(list(tensor.dims)))
    if tensor.data_type == onnx.TensorProto.STRING:
        return
    if tensor.data_type not in helper.get_all_tensor_dtypes():
        raise FileError(subject, expected="a known type", found=f"type {tensor.data_type}")
    count = 1
    for size in tensor.dims:
        count *= size
    if count > 2**40:
        raise FileError(
            subject, expected="a size that a file can have", found=str(list(tensor.dims))
        )
    width = _bits(tensor)
    wanted = (count * width + 7) // 8
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        tensor.raw_data = _external(path, subject, tensor, wanted)
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]
    elif tensor.HasField("raw_data") and len(tensor.raw_data) != wanted:
        raise FileError(
            subject, expected=f"{wanted:,} bytes for shape {list(tensor.dims)}",
            found=f"{len(tensor.raw_data):,}",
        )  # fmt: skip
    elif not tensor.HasField("raw_data") and count > 2**28 and not _typed(tensor):
        raise FileError(subject, expected=f"{count:,} values", found="none")


def _bits(tensor: onnx.TensorProto) -> int:
    from onnx import TensorProto, helper  # noqa: PLC0415 (an extra)

    name = TensorProto.DataType.Name(tensor.data_type)
    if name in ("INT4", "UINT4", "FLOAT4E2M1"):
        return 4
    if name in ("INT2", "UINT2"):
        return 2
    return int(helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize) * 8


def _typed(tensor: onnx.TensorProto) -> int:
    lists = (tensor.float_data, tensor.int32_data, tensor.int64_data, tensor.double_data)
    return sum(len(values) for values in lists)


def _external(path: Path, subject: str, tensor: onnx.TensorProto, wanted: int) -> bytes:
    """The bytes that a tensor keeps in another file, which must lie below the model's folder."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    folder = path.parent.resolve()
    file = (folder / location).resolve() if location and "\0" not in location else folder
    if not location or Path(location).is_absolute() or not file.is_relative_to(folder):
        raise FileError(
            subject, expected="external data in the model's own folder", found=repr(location),
            hint="It was not opened: a model must not read other files.",
        )  # fmt: skip
    if not file.is_file():
        raise FileError(subject, expected=f"its external data in {file.name}", found="no such file")
    offset, length = (_count(subject, entries, key) for key in ("offset", "length"))
    offset = offset or 0
    if length is not None and length != wanted:
        raise FileError(
            subject, expected=f"{wanted:,} bytes for shape {list(tensor.dims)}",
            found=f"a length of {length:,}",
        )  # fmt: skip
    if offset + wanted > file.stat().st_size:
        raise FileError(
            subject, expected=f"{wanted:,} bytes at {offset:,} of {file.name}",
            found=f"a file of {file.stat().st_size:,} bytes", hint="It may be cut short.",
        )  # fmt: skip
    with file.open("rb") as stream:
        stream.seek(offset)
        return stream.read(wanted)


def _count(subject: str, entries: dict[str, str], key: str) -> int | None:
    text = entries.get(key)
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 18:
        raise FileError(subject, expected=f"a number of bytes as {key}", found=repr(text[:40]))
    return int(text)
