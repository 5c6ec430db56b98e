# SPDX-License-Identifier: Apache-2.0
"""The shim core (``shim/core``) for Python: compiled on first use, loaded by cffi.

The very files that run in the kernel answer here, so that tests, simulators and the controller's checks need
no second implementation. Building takes about a second and is cached by content under
``${SDNGCC_CACHE:-~/.cache/sdn-gcc}``. ``SDNGCC_CORE_CFLAGS`` replaces the compiler's flags, for sanitizers.
"""

import hashlib
import os
import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple, Union

import cffi

from sdngcc import shim

#: Folder of the C sources, in a checkout of the repository.
SOURCE_DIR = Path(__file__).resolve().parent.parent / "core"
#: Folder of user space as the engine's host.
HOST_DIR = SOURCE_DIR.parent / "user"
#: What the compiler is told for the laboratory build; flags behind it that undefine the name make the product.
LABORATORY = f"-D{shim.LABORATORY}"
PRODUCT = f"-U{shim.LABORATORY}"
#: Flags unless SDNGCC_CORE_CFLAGS says otherwise.
DEFAULT_CFLAGS = "-O2"

_HEADERS = ("arith.h", "bucket.h", "share.h", "siphash.h", "message.h", "flow.h", "law.h", "laboratory.h",
            "engine/counters.h", "../user/account.h", "../user/lab.h")
_TYPES = """
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
"""


class CoreBuildError(RuntimeError):
    """The C core could not be compiled; the text holds the command and the compiler's words."""


def sources() -> List[Path]:
    """Return the C files of the core, laws and engine included, sorted."""
    found = sorted(SOURCE_DIR.glob("**/*.c"))
    if not found:
        raise CoreBuildError(f"no C sources in {SOURCE_DIR}: the core can only be built in a checkout")
    return found


def host_sources() -> List[Path]:
    """Return the C files that are user space as the engine's host, sorted."""
    return sorted(HOST_DIR.glob("*.c"))


def _read(path: Path) -> str:
    """Return a C file without its comments."""
    return re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def _expanded(header: str) -> str:
    """Return a header whose lists, macros that name another macro X for each of their lines, stand where they are used.

    The other macro is taken to make an enumerator of a line's first word.
    """
    lists = {name: re.findall(r"\bX\((\w+)", lines)
             for name, lines in re.findall(r"^#define (\w+)\(X\) \\\n((?:.*\\\n)*.*)$", header, re.M)}
    header = re.sub(r"^#define \w+\(X\) \\\n(?:.*\\\n)*.*$", "", header, flags=re.M)
    for name, words in lists.items():
        header = re.sub(rf"\b{name}\(\w+\)", "".join(f"SHIM_{word}," for word in words), header)
    return header


def _own_structs() -> str:
    """Return the structs that laws keep of their own, headers' first, for others are made of these."""
    folder = SOURCE_DIR / "laws"
    files = [SOURCE_DIR / "climb.h", *sorted(folder.glob("*.h")), *sorted(folder.glob("*.c"))]
    return "\n".join("\n".join(re.findall(r"^struct \w+ \{$.*?^\};$", _read(path), re.M | re.S)) for path in files)


def declarations() -> str:
    """Return what cffi needs of the core's headers, and the laws' own structs.

    There are no comments, no directives and no functions' bodies in it, and constants are numbers.
    """
    text = ""
    constants: Dict[str, str] = {}
    for name in ("types.h", *_HEADERS):
        header = _expanded(_read(SOURCE_DIR / name))
        constants.update(re.findall(r"^#define (SHIM_\w+) (0x[0-9a-fA-F]+|\d+)U?L*\s*$", header, re.M))
        if name != "types.h":
            header = re.sub(r"^static inline [^{;]*\{.*?^\}$|^_Static_assert\(.*?\);$", "", header, flags=re.M | re.S)
            text += re.sub(r"^#.*$", "", header, flags=re.M)
    text += _own_structs()
    text = re.sub(r"\bSHIM_[A-Z0-9_]+\b", lambda match: constants.get(match[0], match[0]), text)
    # cffi takes a const object of an opened library for a compile-time constant.
    text = text.replace("extern const ", "extern ")
    defines = "".join(f"#define {name} {value}\n" for name, value in constants.items())
    return _TYPES + defines + text


def build(cflags: Optional[str] = None) -> Path:
    """Compile the core as a shared library, unless the cache has it, and return its path.

    cflags are words for gcc; None takes SDNGCC_CORE_CFLAGS or else ``-O2``. Raises CoreBuildError.
    """
    flags = (os.environ.get("SDNGCC_CORE_CFLAGS") or DEFAULT_CFLAGS if cflags is None else cflags).split()
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", LABORATORY, *flags, "-ffreestanding", "-fPIC",
               "-shared"]
    files = sources() + host_sources()
    digest = hashlib.sha256("\0".join(command).encode())
    for path in [*files, *sorted(SOURCE_DIR.glob("**/*.h")), *sorted(HOST_DIR.glob("*.h"))]:
        digest.update(path.relative_to(SOURCE_DIR.parent).as_posix().encode() + b"\0" + path.read_bytes())
    caches = Path(os.environ.get("SDNGCC_CACHE") or Path.home() / ".cache" / "sdn-gcc")
    folder = caches / f"core-{digest.hexdigest()[:16]}"
    library = folder / "libshimcore.so"
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        output = Path(scratch) / library.name
        command += ["-o", str(output), *map(str, files)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise CoreBuildError(f"cannot run gcc to build the shim core: {error}") from error
        if done.returncode:
            raise CoreBuildError(f"building the shim core failed:\n{' '.join(command)}\n{done.stderr}")
        output.replace(library)
    return library


@cache
def load(cflags: Optional[str] = None) -> Tuple[Any, Any]:
    """Return ``(ffi, lib)`` of the core: lib has the headers' functions and constants by their C names."""
    ffi = cffi.FFI()
    ffi.cdef(declarations())
    return ffi, ffi.dlopen(str(build(cflags)))


def limiter(law: Any) -> Any:
    """Return a new ``struct shim_limiter_state *``, all 0, with room for the law's own behind it."""
    return _new("struct shim_limiter_state", law.limiter_size)


def peer(law: Any) -> Any:
    """Return a new ``struct shim_peer_state *``, all 0, with room for the law's own behind it."""
    return _new("struct shim_peer_state", law.peer_size)


def flow(law: Any) -> Any:
    """Return a new ``struct shim_flow *``, all 0, with room for the law's own behind it."""
    return _new("struct shim_flow", law.flow_size)


def clear(law: Any, state: Any) -> None:
    """Set a limiter, peer or flow under the law to 0, its own part too, as before it begins anew."""
    ffi, _ = load()
    own_size = getattr(law, f"{_kind(state)}_size")
    ffi.memmove(state, bytes(ffi.sizeof(state[0]) + own_size), ffi.sizeof(state[0]) + own_size)


def own(law: Any, state: Any) -> Any:
    """Return what the law itself keeps of a limiter, peer or flow: ``struct LAW_limiter *`` and so on.

    Raises cffi.CDefError if the law keeps nothing there.
    """
    ffi, _ = load()
    name = ffi.string(law.name).decode()
    return _keep(ffi.cast(f"struct {name}_{_kind(state)} *", state + 1), state)


def _kind(state: Any) -> str:
    """Return what a pointer to a state leads to: limiter, peer or flow."""
    ffi, _ = load()
    kinds = {"struct shim_limiter_state *": "limiter", "struct shim_peer_state *": "peer", "struct shim_flow *": "flow"}
    return kinds[ffi.typeof(state).cname]


def _new(type_name: str, own_size: int) -> Any:
    """Return a pointer to a new object, all 0, with so many bytes behind it; both live as long as the pointer."""
    ffi, _ = load()
    room = ffi.new("u64[]", -(-(ffi.sizeof(type_name) + own_size) // 8))
    return _keep(ffi.cast(f"{type_name} *", room), room)


def _keep(pointer: Any, owner: Any) -> Any:
    """Return the pointer, which keeps alive what it leads to."""
    ffi, _ = load()
    return ffi.gc(pointer, lambda _, owner=owner: None)


#: Fields of a v1 message that are addresses, as 16 bytes.
_ADDRESSES = ("vm", "peer")
#: Fields of a message that are numbers.
_NUMBERS = ("type", "flags", "epoch", "sequence", "point_datapath", "point_port", "marks", "interval_ns",
            "rate", "weight_total", "sender")
#: Fields of an entry of a v2 message that are numbers.
_ENTRY_NUMBERS = ("teller", "rate", "weight_total", "marks", "interval_ns", "bits", "scope")

Fields = Dict[str, Union[int, bytes]]


def message(fields: Fields) -> Any:
    """Return a ``struct shim_message *`` with these fields; the others are 0. Raises KeyError by name."""
    ffi, _ = load()
    result = ffi.new("struct shim_message *")
    for name, value in fields.items():
        if name not in (*_ADDRESSES, *_NUMBERS, "version"):
            raise KeyError(f"a control message has no field {name!r}")
        setattr(result, name, value)
    return result


def encode(fields: Fields, key: bytes) -> bytes:
    """Return the 96 bytes of a v1 message; addresses are 16 bytes, the key is 16 bytes."""
    ffi, lib = load()
    out = ffi.new("u8[]", lib.SHIM_MESSAGE_V1_BYTES)
    lib.shim_message_encode(out, message(fields), _key(key))
    return bytes(ffi.buffer(out))


def decode(data: bytes, key: bytes) -> Tuple[str, Fields]:
    """Return ("ok", fields) of a v1 message or a v2 one's head, or (why it was refused, {}): short, form or tag."""
    ffi, lib = load()
    result = ffi.new("struct shim_message *")
    error = lib.shim_message_decode(result, ffi.new("u8[]", data), len(data), _key(key))
    return _answer(error, result)


def entries(data: bytes) -> List[Fields]:
    """Return the fields of each entry of a v2 message that `decode` accepts; prefix has 16 bytes."""
    ffi, lib = load()
    whole, entry = ffi.new("u8[]", data), ffi.new("struct shim_message_entry *")
    found: List[Fields] = []
    for number in range(data[36]):
        lib.shim_message_entry(entry, whole, number)
        found.append({"prefix": bytes(entry.prefix)} | {name: int(getattr(entry, name)) for name in _ENTRY_NUMBERS})
    return found


def decode_v0(data: bytes) -> Tuple[str, Fields]:
    """Return ("ok", fields) of a v0 message, or (why it was refused, {}): short or form."""
    ffi, lib = load()
    result = ffi.new("struct shim_message *")
    return _answer(lib.shim_message_decode_v0(result, ffi.new("u8[]", data), len(data)), result)


def error_name(error: int) -> str:
    """Return the name of an ``enum shim_message_error`` in lower case: ok, short, form, tag, replay."""
    ffi, _ = load()
    name: str = ffi.typeof("enum shim_message_error").elements[int(error)]
    return name[len("SHIM_MESSAGE_"):].lower()


def _key(key: bytes) -> bytes:
    """Return the key if it has 16 bytes, else raise ValueError."""
    if len(key) != 16:
        raise ValueError(f"a key has 16 bytes, not {len(key)}")
    return key


def _answer(error: int, result: Any) -> Tuple[str, Fields]:
    """Return the verdict of a decoder with the fields it read."""
    name = error_name(error)
    if name != "ok":
        return name, {}
    fields: Fields = {field: int(getattr(result, field)) for field in ("version", *_NUMBERS)}
    fields.update({field: bytes(getattr(result, field)) for field in _ADDRESSES})
    return name, fields
