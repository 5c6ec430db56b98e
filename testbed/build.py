# SPDX-License-Identifier: Apache-2.0
"""Builds what the virtual machine runs, each part in a folder named after the content it was made from.

``$SDNGCC_CACHE`` (default ``~/.cache/sdn-gcc``) holds ``<part>-<hash>/``. The parts:

* ``source``: a kernel's source, of Debian's package of that name, fetched by this machine's apt and never installed;
* ``kernel``: User Mode Linux of linux-source-6.1, with uml.config and patches/ of this folder, and with sanitize/ for
  ``make sanitize``; or of another kernel that there are patches for in kernels/, with what further configuration is
  there;
* ``module``: openvswitch.ko for that kernel, with ovs-patches/linux and shim/ (seconds, so a change there is cheap);
* ``beside``: sdngcc.ko for that kernel, the shim beside the kernel's own openvswitch.ko;
* ``congestion``: congestion.ko for that kernel, the congestion controls of the folder congestion;
* ``generator``: the traffic generator;
* ``loop-clock``: what is preloaded into ovs-vswitchd, so that runs take less wall time.

The parts of the machines with several CPUs are those of smp/build.py, those of Open vSwitch those of ovs/build.py,
those of the simulators those of simulation/build.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Container, Dict, List, Optional, Sequence

from sdngcc.shim import LABORATORY
from sdngcc.testbed.locks import locked, say
from sdngcc.testbed.ovs.versions import PLAIN

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# The kernel of the testbed, and those that it can have instead: folders of kernels/.
KERNEL = "6.1"
KERNELS = (KERNEL, "6.12", "7.3")
# Suites of Debian's archive with the source of a kernel, beside those that the machine installs from.
SUITES = {"6.1": "bookworm", "7.3": "trixie-backports"}
LOOP_CLOCK = HERE / "ovs" / "loop_clock.c"
JOBS = str(min(os.cpu_count() or 1, 8))

# Folders of the kernel source that no User Mode Linux build reads, a quarter of the unpacking.
UNREAD = ("Documentation/[a-z]*", "drivers/gpu/drm/amd/include")

# Called with the part's name, steps done, steps expected and what is being done.
Progress = Callable[[str, int, int, str], None]


class BuildError(Exception):
    """A build failed; the text names the step and the log."""


@dataclass(frozen=True)
class Part:
    """One thing to build."""

    name: str
    key: str
    """Hash over all it is made from: 16 hex digits."""
    steps: int
    """Lines of output a whole build prints, about: the length of its progress bar."""
    sanitize: bool = False
    """Kernel and modules: with the checks of the folder sanitize."""
    kernel: str = KERNEL
    """Kernel and modules: which Linux, one of KERNELS."""
    recipe: Optional[Callable[[Build], None]] = None
    """What builds it; None: this module knows how."""

    @property
    def folder(self) -> Path:
        """Where it is built and stays."""
        return cache_root() / f"{self.name}-{self.key}"

    @property
    def built(self) -> bool:
        """Whether a build of it ended well."""
        return (self.folder / ".complete").exists()


@dataclass(frozen=True)
class Artifacts:
    """Paths of all a job needs."""

    kernel: Path
    modules: List[str]
    """Modules of the patched datapath in the order to load them."""
    beside: List[str]
    """Modules of the kernel's own datapath and, last, sdngcc.ko."""
    product: List[str]
    """As modules, of the build that is packaged: without what the laboratory build has beside."""
    congestion: Path
    """Module of D2TCP and L2DCT, for the machines of experiments."""
    ovs: Dict[str, str]
    """Open vSwitch's programs and its schema by name."""
    other_ovs: Dict[str, Dict[str, str]]
    """The same of other versions of Open vSwitch, as far as they were asked for."""
    generator: Path
    loop_clock: Path
    """Preloaded into ovs-vswitchd, but for its own datapath."""
    kernel_source: Path
    kernel_build: Path
    module_source: Path
    """The patched net/openvswitch, built in place."""
    beside_source: Path
    """The sources of sdngcc.ko, built in place."""
    ovs_source: Path

    @property
    def root(self) -> Path:
        """Folder of all builds."""
        return cache_root()

    def datapath(self, name: str) -> List[str]:
        """Return the modules of a variant of the datapath: ``patched``, ``beside`` or, with no shim, ``netdev``."""
        return {"patched": self.modules, "beside": self.beside, "netdev": self.beside[:-1]}[name]

    def open_vswitch(self, version: str) -> Dict[str, str]:
        """Return the programs and the schema of a version of Open vSwitch that was asked for."""
        return self.ovs if version == PLAIN else self.other_ovs[version]

    def as_dict(self) -> Dict[str, Any]:
        """Return all paths as text."""
        return {name: value if isinstance(value, (list, dict)) else str(value)
                for name, value in dataclasses.asdict(self).items()}


def cache_root() -> Path:
    """Return the folder of all builds: $SDNGCC_CACHE, or ~/.cache/sdn-gcc."""
    given = os.environ.get("SDNGCC_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "sdn-gcc"


def _files(*places: Path) -> List[Path]:
    """Return places that are files, and all files below those that are folders, sorted."""
    found: List[Path] = []
    for place in places:
        found += [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
    return sorted(path for path in found if "__pycache__" not in path.parts)


def content_key(texts: Sequence[str], *places: Path, without: Container[Path] = ()) -> str:
    """Return 16 hex digits that change when one of the texts, or a file of places (name or content), does.

    without: files that it does not change with.
    """
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\0")
    for path in _files(*places):
        if path in without:
            continue
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def compiler_version() -> str:
    """Return the version of gcc."""
    return subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()


def laboratory_patches(linux: str) -> Path:
    """Return the folder of the testbed's own patches, and further configuration, for one of KERNELS."""
    return HERE / "patches" if linux == KERNEL else HERE / "kernels" / linux


def source_part(linux: str) -> Part:
    """Return the part with the source of a kernel: the newest that Debian has when it is fetched first."""
    return Part("source", content_key([f"linux-source-{linux}"]), 20, kernel=linux, recipe=_fetch_source)


def parts(sanitize: bool = False, linux: str = KERNEL, without: Container[Path] = ()) -> Dict[str, Part]:
    """Return all parts with the keys of the present sources; sanitize: kernel and module that look for mistakes.

    linux is one of KERNELS. Parts without some of the shim's files are never built, but their keys tell what of a part
    does not follow from these.
    """
    patches, shim = ROOT / "ovs-patches", ROOT / "shim"
    gcc = compiler_version()
    extra = [HERE / "sanitize"] if sanitize else []
    kernel = content_key([source_part(linux).key, gcc, *UNREAD], HERE / "uml.config", laboratory_patches(linux), *extra)
    hooks = [path for path in (patches / "build.sh", patches / "linux", shim / "core", shim / "kernel")
             if path.exists()]
    uapi = shim / "kernel" / "uapi"
    return {part.name: part for part in (
        Part("kernel", kernel, 1500, sanitize, linux),
        Part("module", content_key([kernel], *hooks, without=without), 60, sanitize, linux),
        Part("beside", content_key([kernel], shim / "Kbuild", shim / "core", shim / "kernel", without=without), 60,
             sanitize, linux),
        Part("product", content_key([kernel], *hooks, without=without), 60, sanitize, linux),
        Part("congestion", content_key([kernel], HERE / "congestion"), 15, sanitize, linux),
        Part("generator", content_key([gcc], HERE / "generator", uapi), 1),
        Part("loop-clock", content_key([gcc], LOOP_CLOCK), 1),
    )}


def open_vswitch_files(version: str) -> List[Path]:
    """Return all that a version of Open vSwitch is patched with."""
    patches = ROOT / "ovs-patches"
    series = patches / "ovs" / version / "series"
    names = [line for line in series.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    shim = ROOT / "shim"
    return [patches / "build.sh", patches / "ovs" / "files", shim / "kernel" / "uapi", shim / "core",
            shim / "user" / "list.h", shim / "user" / "memory.h", series,
            *((series.parent / name).resolve() for name in names)]


class Build:
    """Runs the steps of one part, counting their lines of output into its log and the progress."""

    def __init__(self, part: Part, progress: Optional[Progress]) -> None:
        self.part, self.progress = part, progress
        self.folder = part.folder
        self.log = self.folder / "build.log"
        self.done = 0

    def run(self, argv: Sequence[str], what: str, cwd: Optional[Path] = None) -> None:
        """Run one step; BuildError with the end of its output when it fails."""
        with open(self.log, "a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(argv)}\n")
            process = subprocess.Popen(list(argv), cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
            assert process.stdout is not None
            last: List[str] = []
            try:
                for line in process.stdout:
                    log.write(line)
                    last = [*last[-14:], line.rstrip()]
                    self.done += 1
                    if self.progress is not None:
                        self.progress(self.part.name, min(self.done, self.part.steps), self.part.steps, what)
                process.wait()
            except BaseException:
                # make's children are in its session.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
        if process.returncode:
            raise BuildError(f"{self.part.name}: {what} failed (exit {process.returncode}); {self.log} ends with:\n  "
                             + "\n  ".join(last))


def _fetch_source(build: Build) -> None:
    # It builds on this module.
    from sdngcc.testbed.fetch import apt_options

    package = f"linux-source-{build.part.kernel}"
    suites = [SUITES[build.part.kernel]] if build.part.kernel in SUITES else []
    build.run(["apt-get", *apt_options(build, suites), "download", package], f"fetching {package}", cwd=build.folder)
    archive = next(build.folder.glob("*.deb"))
    build.run(["dpkg-deb", "-x", str(archive), str(build.folder)], "unpacking it")
    archive.unlink()


def unpack_kernel(build: Build, linux: str, unread: Sequence[str]) -> Path:
    """Unpack the source of one of KERNELS, fetched first if need be, into a part and return where.

    unread: what is left out, a pattern each. Raises BuildError.
    """
    package, tree = source_part(linux), build.folder / "source"
    build_part(package, build.progress)
    tree.mkdir()
    tarball = package.folder / "usr" / "src" / f"linux-source-{linux}.tar.xz"
    build.run(["tar", "-xf", str(tarball), "-C", str(tree), "--strip-components=1",
               *(f"--exclude=linux-source-{linux}/{name}" for name in unread)], "unpacking the source")
    return tree


def _build_kernel(build: Build) -> None:
    linux, objects = build.part.kernel, build.folder / "build"
    source = unpack_kernel(build, linux, UNREAD)
    objects.mkdir()
    checks = HERE / "sanitize" if build.part.sanitize else None
    folder = laboratory_patches(linux)
    for patch in [*sorted(folder.glob("*.patch")), *(sorted(checks.glob("*.patch")) if checks else [])]:
        build.run(["patch", "-p1", "-s", "-N", "-d", str(source), "-i", str(patch)], f"applying {patch.name}")
    make = ["make", "ARCH=um", f"O={objects}", "-C", str(source)]
    build.run([*make, "tinyconfig"], "configuring")
    with open(objects / ".config", "a", encoding="utf-8") as config:
        for more in [HERE / "uml.config", *folder.glob("*.config")]:
            config.write(more.read_text())
        if checks:
            config.write((checks / "sanitize.config").read_text())
    build.run([*make, "olddefconfig"], "configuring")
    build.run([*make, f"-j{JOBS}", "linux", "modules"], "compiling")


def _build_module(build: Build, flags: Sequence[str] = (f"{LABORATORY}=y",)) -> None:
    kernel = parts(build.part.sanitize, build.part.kernel)["kernel"].folder
    tree = build.folder / "source"
    (tree / "net").mkdir(parents=True)
    shutil.copytree(kernel / "source" / "net" / "openvswitch", tree / "net" / "openvswitch")
    shutil.copy(kernel / "source" / "Makefile", tree)  # tells the version
    script = ROOT / "ovs-patches" / "build.sh"
    build.run(["sh", str(script), "linux", str(tree)], "applying the hooks")
    build.run(["make", "ARCH=um", "-C", str(kernel / "build"), f"M={tree / 'net' / 'openvswitch'}", f"-j{JOBS}",
               *flags, "modules"], "compiling")


def _build_product(build: Build) -> None:
    _build_module(build, ())


def copy_beside(tree: Path) -> None:
    """Make a folder of all that sdngcc.ko is built from."""
    shim = ROOT / "shim"
    for path in _files(shim / "Kbuild", shim / "core", shim / "kernel"):
        copy = tree / path.relative_to(shim)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)


def _build_beside(build: Build) -> None:
    kernel = parts(build.part.sanitize, build.part.kernel)["kernel"].folder
    tree = build.folder / "source"
    copy_beside(tree)
    build.run(["make", "ARCH=um", "-C", str(kernel / "build"), f"M={tree}", f"-j{JOBS}", f"{LABORATORY}=y",
               "modules"], "compiling")


def _build_congestion(build: Build) -> None:
    kernel = parts(build.part.sanitize, build.part.kernel)["kernel"].folder
    tree = build.folder / "source"
    shutil.copytree(HERE / "congestion", tree)
    build.run(["make", "ARCH=um", "-C", str(kernel / "build"), f"M={tree}", f"-j{JOBS}", "modules"], "compiling")


def make_open_vswitch(build: Build, tree: Path) -> None:
    """Patch and compile an unpacked Open vSwitch. Raises BuildError."""
    build.run(["sh", str(ROOT / "ovs-patches" / "build.sh"), "ovs", str(tree)], "applying the hooks")
    # The series changes what configure is made of, and a source may bring one made by another automake.
    build.run(["autoreconf", "--install", "--force"], "preparing", cwd=tree)
    build.run(["./configure", "--prefix=/usr", "--sysconfdir=/etc", "--localstatedir=/var", "CFLAGS=-O2 -g",
               f"CPPFLAGS=-D{LABORATORY}"], "configuring", cwd=tree)
    build.run(["make", f"-j{JOBS}"], "compiling", cwd=tree)


def _build_generator(build: Build) -> None:
    sources = [str(path) for path in sorted((HERE / "generator").glob("*.c"))]
    build.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'shim' / 'kernel' / 'uapi'}", "-o",
               str(build.folder / "generator"), *sources, "-lm"], "compiling")


def _build_loop_clock(build: Build) -> None:
    build.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o",
               str(build.folder / "loop_clock.so"), str(LOOP_CLOCK)], "compiling")


_BUILDERS: Dict[str, Callable[[Build], None]] = {
    "kernel": _build_kernel, "module": _build_module, "beside": _build_beside, "product": _build_product,
    "congestion": _build_congestion,
    "generator": _build_generator, "loop-clock": _build_loop_clock}


def build_part(part: Part, progress: Optional[Progress] = None) -> None:
    """Build a part unless it is there. Raises BuildError."""
    if part.built:
        return

    def tell(text: str) -> None:
        if progress is None:
            say(f"build: {part.name}: {text}")
        else:
            progress(part.name, 0, part.steps, text)

    # Two processes never build the same thing at once.
    with locked(cache_root() / f"{part.name}-{part.key}.lock", tell):
        if part.built:
            return
        shutil.rmtree(part.folder, ignore_errors=True)
        part.folder.mkdir(parents=True)
        (part.recipe or _BUILDERS[part.name])(Build(part, progress))
        (part.folder / ".complete").touch()
        if progress is not None:
            progress(part.name, part.steps, part.steps, "done")


def open_vswitch_programs(source: Path) -> Dict[str, str]:
    """Return the programs and the schema in a tree of Open vSwitch by name."""
    programs = {name: str(source / path / name) for path, names in {
        "ovsdb": ("ovsdb-tool", "ovsdb-server", "ovsdb-client"), "vswitchd": ("ovs-vswitchd",),
        "utilities": ("ovs-vsctl", "ovs-appctl", "ovs-ofctl", "ovs-dpctl")}.items() for name in names}
    return {**programs, "schema": str(source / "vswitchd" / "vswitch.ovsschema")}


def build(progress: Optional[Progress] = None, only: Optional[Sequence[str]] = None,
          sanitize: bool = False, ovs: Sequence[str] = (), linux: str = KERNEL) -> Artifacts:
    """Build what is missing (all parts, or those named) and return where everything is. Raises BuildError.

    ovs: versions of Open vSwitch that are wanted, too; linux: one of KERNELS.
    """
    # It builds on this module.
    from sdngcc.testbed.ovs.build import build_version, version_tree

    wanted = parts(sanitize, linux)
    for name, part in wanted.items():
        if only is None or name in only:
            build_part(part, progress)
    for version in [*([PLAIN] if only is None or "ovs" in only else []), *ovs]:
        build_version(version, progress)
    kernel, module, beside = (wanted[name].folder for name in ("kernel", "module", "beside"))
    built = kernel / "build" / "net"
    tree = module / "source" / "net" / "openvswitch"
    return Artifacts(
        kernel=kernel / "build" / "linux",
        modules=[str(built / "nsh" / "nsh.ko"), str(tree / "openvswitch.ko")],
        beside=[str(built / "nsh" / "nsh.ko"), str(built / "openvswitch" / "openvswitch.ko"),
                str(beside / "source" / "sdngcc.ko")],
        product=[str(built / "nsh" / "nsh.ko"),
                 str(wanted["product"].folder / "source" / "net" / "openvswitch" / "openvswitch.ko")],
        congestion=wanted["congestion"].folder / "source" / "congestion.ko",
        ovs=open_vswitch_programs(version_tree(PLAIN)),
        other_ovs={version: open_vswitch_programs(version_tree(version)) for version in ovs if version != PLAIN},
        generator=wanted["generator"].folder / "generator",
        loop_clock=wanted["loop-clock"].folder / "loop_clock.so",
        kernel_source=kernel / "source", kernel_build=kernel / "build", module_source=tree,
        beside_source=beside / "source", ovs_source=version_tree(PLAIN))


def clean_others() -> List[Path]:
    """Remove builds of other versions of the sources and return their folders. Raises BuildError."""
    # All build on this module.
    from sdngcc.testbed.bench.limiter import bbr_part
    from sdngcc.testbed.neutron import extensions_part, neutron_part
    from sdngcc.testbed.ovs.build import version_parts
    from sdngcc.testbed.qemu import qemu_part
    from sdngcc.testbed.simulation.build import simulation_parts
    from sdngcc.testbed.smp.build import smp_parts

    every = [*(part for linux in KERNELS for part in parts(linux=linux).values()), *parts(True).values(),
             *(source_part(linux) for linux in KERNELS), *smp_parts().values(), *version_parts().values(),
             neutron_part(), extensions_part(), bbr_part(), qemu_part(),
             *simulation_parts()]
    kept, names = {part.folder.name for part in every}, {part.name for part in every}
    removed = [path for path in sorted(cache_root().glob("*-*"))
               if path.name.removesuffix(".lock") not in kept and path.name.split("-")[0] in names]
    for path in removed:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return removed
