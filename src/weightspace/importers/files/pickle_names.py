"""Which objects a torch checkpoint may import, and how to refuse the others."""

from __future__ import annotations

import pickletools
from typing import BinaryIO

import torch

from weightspace.errors import FileError
from weightspace.importers.files.guard import READABLE_TYPES

HINT = (
    "It was refused before anything in it ran. Where you trust the file, load it there and save "
    "only the tensors: torch.save(module.state_dict(), path)."
)
PLAIN_CALLS = {
    "collections.OrderedDict",
    "collections.Counter",
    "builtins.set",
    "builtins.complex",
    "torch.Size",
    "torch.device",
    "torch._utils._rebuild_parameter",
}
REBUILDS = {f"torch._utils._rebuild_{name}" for name in ("tensor", "tensor_v2", "tensor_v3")}
KNOWN = PLAIN_CALLS | REBUILDS | {"_codecs.encode"}
STORAGE_TYPES = {
    "Double": torch.float64, "Float": torch.float32, "Half": torch.float16,
    "BFloat16": torch.bfloat16, "Long": torch.int64, "Int": torch.int32, "Short": torch.int16,
    "Char": torch.int8, "Byte": torch.uint8, "Bool": torch.bool,
    "ComplexFloat": torch.complex64, "ComplexDouble": torch.complex128, "Untyped": torch.uint8,
}  # fmt: skip


def is_known(path: str) -> bool:
    """Whether torch.save writes this import for plain containers of dense tensors."""
    if path in KNOWN or (path.startswith("torch.") and path.endswith("Storage")):
        return True
    return isinstance(getattr(torch, path.removeprefix("torch."), None), torch.dtype)


def storage_type(path: str) -> torch.dtype | None:
    """The type of the values of a storage, if it is one that is read here."""
    *module, kind = path.split(".")
    if ".".join(module) not in ("torch", "torch.cuda", "torch.storage"):
        return None
    dtype = STORAGE_TYPES.get(kind.removesuffix("Storage"))
    return dtype if dtype in READABLE_TYPES else None


def foreign_names(file: BinaryIO, start: int) -> list[str]:
    """The imports of a pickle that are not known, reading it without executing it."""
    names: set[str] = set()
    texts: list[str] = []
    file.seek(start)
    try:
        for code, argument, _ in pickletools.genops(file):
            if code.name == "GLOBAL":
                names.add(str(argument).replace(" ", "."))
            elif code.name == "STACK_GLOBAL":
                names.add(".".join(texts[-2:]))
            elif isinstance(argument, str):
                texts.append(argument)
    except ValueError:
        pass  # Damaged further on: the names so far say enough.
    return sorted(n for n in names if not is_known(n.replace("__builtin__.", "builtins.")))


def refuse_names(foreign: list[str], subject: object) -> FileError:
    """The error for a pickle that asks for more than tensors need."""
    listed = ", ".join(foreign[:6]) + (", ..." if len(foreign) > 6 else "")
    expected, found = "a pickle of tensors, numbers and strings", f"one that asks for {listed}"
    if any(name.startswith("torch.nn.modules.") for name in foreign):
        expected = "a state dict"
        found = f"a whole pickled module, which needs the code of {listed}"
    elif any(name.startswith("torch.") for name in foreign):
        expected, found = "dense tensors", f"objects made by {listed}"
    return FileError(subject, expected=expected, found=found, hint=HINT)
