# SPDX-License-Identifier: GPL-2.0-only
"""Stock Debian kernels: downloaded by apt, unpacked with all that a guest, BTF and a module build need.

Two more are built from Debian's source: one finds wrong locking and wrong use of memory, one finds data races.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from lab import cache, progress, toolbox
from lab.apt import Apt
from lab.errors import SetupFailed, UsageError

ARCH = "amd64"


@dataclass(frozen=True)
class Kernel:
    """A kernel that the lab knows: its name, the Debian suite it comes from, the compiler that built it.

    `config` is the configuration of one that is built here, and "" for a stock kernel.
    """

    name: str
    suite: str
    compiler: str
    config: str = ""


KERNELS = (
    Kernel("6.1", "bookworm", "gcc-12"),
    Kernel("6.12", "trixie", "gcc-14"),
    # the newest one that Debian 13 offers
    Kernel("next", "trixie-backports", "gcc-14"),
)
DEFAULT = "6.12"


def _instrumented(name: str) -> Kernel:
    """The default kernel as far as guests need it, with what lab/NAME.config adds."""
    parts = (Path(__file__).with_name(f"{part}.config") for part in ("guest", name))
    return Kernel(f"{DEFAULT}-{name}", "trixie", "gcc-14", "".join(part.read_text(encoding="utf-8") for part in parts))


DEBUG = _instrumented("debug")
KCSAN = _instrumented("kcsan")
NVME = """\
tar -xJf /tmp/in/linux.tar.xz -C /tmp/out --strip-components=1 --wildcards \
    --no-wildcards-match-slash '*/Makefile' '*/drivers/nvme/host/*.[ch]'
"""
CHECKPATCH = """\
names="*/scripts/checkpatch.pl */scripts/spelling.txt */scripts/const_structs.checkpatch"
set -f
tar -xJf /tmp/in/linux.tar.xz -C /tmp/out --strip-components=2 --wildcards $names
"""
# A build's folder keeps the files that modules outside of it are built with. It needs room for objects with their
# debug information.
BUILD_MIB = 6144
BUILD = """\
cd /tmp/work
tar -xJf /tmp/in/linux.tar.xz --strip-components=1
# KCSAN, where it is on, watches the block layer, and modules that are built later. The rest tells it of barriers alone.
export KCSAN_SANITIZE=n
echo 'KCSAN_SANITIZE := y' >>block/Makefile
for folder in kernel kernel/locking kernel/rcu kernel/time lib; do
    echo 'KCSAN_INSTRUMENT_BARRIERS := y' >>$folder/Makefile
done
# What runs before KASAN has its shadow must not be checked. It is so for other ways to boot, and with Debian's options.
echo 'KASAN_SANITIZE := n' >>arch/x86/platform/pvh/Makefile
echo 'KASAN_SANITIZE_string.o := n' >>lib/Makefile
run() {
    make -s -j"$JOBS" CC="$COMPILER" HOSTCC="$COMPILER" "$@" </dev/null 2>&1
}
run KCONFIG_ALLCONFIG=/tmp/config allnoconfig
lost=$(grep '^CONFIG_' /tmp/config | grep -vxFf .config) && { echo "the configuration doesn't take: $lost"; exit 1; }
run vmlinux modules
run INSTALL_MOD_PATH=/tmp/out/usr INSTALL_MOD_STRIP=1 modules_install
release=$(cat include/config/kernel.release)
objcopy -S vmlinux /tmp/out/vmlinux
find . -type f ! -path './scripts/*' ! -path './include/*' ! -path './arch/x86/include/*' ! -path './tools/*' \
    ! -name 'Makefile*' ! -name 'Kbuild*' ! -name .config ! -name Module.symvers -delete
find . -type d -empty -delete
mkdir -p /tmp/out/usr/src
cp -a . "/tmp/out/usr/src/linux-headers-$release"
ln -sfn "/usr/src/linux-headers-$release" "/tmp/out/usr/lib/modules/$release/build"
"""


@dataclass(frozen=True)
class Unpacked:
    """A kernel on disk; `root` holds vmlinux, boot/, usr/src/, usr/lib/modules/RELEASE/ …"""

    kernel: Kernel
    release: str
    root: Path

    @property
    def vmlinux(self) -> Path:
        """The uncompressed kernel, bootable through PVH and with BTF."""
        return self.root / "vmlinux"

    @property
    def modules(self) -> Path:
        """The folder of modules.dep and kernel/."""
        return self.root / "usr/lib/modules" / self.release

    def box(self) -> toolbox.Sandbox:
        """A toolbox in which this kernel's headers and modules lie where its packages would install them."""
        tops = {f"/usr/src/{p.name}": p for p in (self.root / "usr/src").iterdir()}
        kbuild = {f"/usr/lib/{p.name}": p for p in (self.root / "usr/lib").glob("linux-kbuild-*")}
        lib = {f"/usr/lib/modules/{self.release}": self.modules}
        return toolbox.Sandbox(ro={**tops, **kbuild, **lib})


def names() -> tuple[str, ...]:
    """The names of the kernels, oldest first."""
    return tuple(kernel.name for kernel in KERNELS)


def get(name: str) -> Unpacked:
    """The kernel of a name, downloaded and unpacked, or built, on first use (about 120 MB; 20 minutes)."""
    kernel = _find(name)
    link = cache.root() / "kernels" / (f"{name}-{_tag(kernel)}" if kernel.config else name)
    cache.once(link, lambda part: part.symlink_to((_built if kernel.config else _fetch)(kernel).name))
    root = link.resolve()
    return Unpacked(kernel, root.name, root)


def checkpatch() -> Path:
    """The folder of the kernel's own checkpatch.pl; its only package is the kernel's source."""

    def unpack(part: Path) -> None:
        part.mkdir()
        source = _source(DEFAULT, _find(DEFAULT).suite)
        toolbox.run(["sh", "-euc", CHECKPATCH], toolbox.Sandbox(ro={"/tmp/in": source}, rw={"/tmp/out": part}))

    return cache.once(cache.root() / "checkpatch", unpack)


def nvme(kernel: Unpacked) -> Path:
    """A folder with the Makefile and drivers/nvme/host/ of Debian's source for a kernel."""
    series = ".".join(kernel.release.split(".")[:2])

    def unpack(part: Path) -> None:
        part.mkdir()
        source = _source(series, kernel.kernel.suite)
        toolbox.run(["sh", "-euc", NVME], toolbox.Sandbox(ro={"/tmp/in": source}, rw={"/tmp/out": part}))

    return cache.once(cache.root() / "nvme" / f"{kernel.release}-{cache.key(NVME)}", unpack)


def _source(series: str, suite: str) -> Path:
    """The folder of linux.tar.xz, Debian's source of a kernel (150 MB, fetched once)."""

    def fetch(part: Path) -> None:
        with progress.step(f"Kernel {series}: download Debian's source") as step, cache.scratch() as work:
            Apt(suite, work).download([package := f"linux-source-{series}"])
            step.note(package)
            part.mkdir()
            untar = "dpkg-deb --fsys-tarfile /tmp/in/*.deb | tar -xO --wildcards '*.tar.xz' >/tmp/out/linux.tar.xz"
            toolbox.run(["sh", "-euc", untar], toolbox.Sandbox(ro={"/tmp/in": work / "debs"}, rw={"/tmp/out": part}))

    return cache.once(cache.root() / f"linux-source-{series}", fetch)


def payload(image: bytes) -> bytes:
    """The compressed kernel inside a bzImage (boot protocol 2.08 and later), without its trailing length word."""
    if image[0x202:0x206] != b"HdrS":
        raise ValueError("not a bzImage")
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    return image[start : start + length - 4]


def decompressor(data: bytes) -> tuple[str, ...]:
    """The command that decompresses data with this beginning."""
    magics = {b"\xfd7zXZ": ("xz", "-dc"), b"\x28\xb5\x2f\xfd": ("zstd", "-dc"), b"\x1f\x8b": ("gzip", "-dc")}
    for magic, command in magics.items():
        if data.startswith(magic):
            return command
    raise ValueError(f"unknown compression: starts with {data[:6].hex()}")


def _find(name: str) -> Kernel:
    for kernel in (*KERNELS, DEBUG, KCSAN):
        if kernel.name == name:
            return kernel
    raise UsageError(f"no kernel called {name!r}; there are {', '.join(names())}", "./sluice list kernels")


def _fetch(kernel: Kernel) -> Path:
    """Download the newest release of a series and unpack it."""
    with progress.step(f"Kernel {kernel.name}: download and unpack Debian's packages") as step, cache.scratch() as work:
        apt = Apt(kernel.suite, work)
        release = _release(apt)
        packages = _packages(apt, release)
        step.note(release)
        apt.download(packages)
        step.note("unpack")
        target = cache.root() / "kernels" / release
        return cache.once(target, lambda part: _unpack(work, release, part))


def _tag(kernel: Kernel) -> str:
    """A name for the inputs that a kernel is built from."""
    return cache.key(toolbox.identity(toolbox.workshop()), kernel.config, BUILD)[:8]


def _built(kernel: Kernel) -> Path:
    """Build a kernel from Debian's source; its release has the version of the source and the tag."""
    stock, source = get(DEFAULT), _source(DEFAULT, kernel.suite)
    local = f"-{kernel.name.split('-')[1]}-{_tag(kernel)}"
    target = cache.root() / "kernels" / f"{stock.release.split('+')[0]}{local}"

    def build(part: Path) -> None:
        cache.need_space(BUILD_MIB)
        with progress.step(f"Kernel {kernel.name}: build from Debian's source"), cache.scratch() as work:
            (work / "tree").mkdir()
            part.mkdir()
            (work / "config").write_text(f'{kernel.config}CONFIG_LOCALVERSION="{local}"\n')
            box = toolbox.Sandbox(
                ro={"/tmp/in": source, "/tmp/config": work / "config"},
                rw={"/tmp/work": work / "tree", "/tmp/out": part},
                root=toolbox.workshop(),
            )
            env = {"COMPILER": kernel.compiler, "JOBS": str(os.cpu_count() or 1)}
            toolbox.run(["sh", "-eu"], box, BUILD.encode(), env)
            if not (part / "usr/lib/modules" / target.name).exists():
                raise SetupFailed(
                    f"Debian's source is of another version than its kernel {stock.release} here",
                    f"rm -r {cache.root()}/kernels {cache.root()}/linux-source-{DEFAULT}   and the same command",
                )

    return cache.once(target, build)


def _release(apt: Apt) -> str:
    """The release that the series' metapackage points to."""
    prefix = "linux-image-"
    return next(d for d in apt.depends(f"{prefix}{ARCH}") if d.startswith(prefix)).removeprefix(prefix)


def _packages(apt: Apt, release: str) -> list[str]:
    """The packages that make up a release: image, its parts since 7.x, headers and the build tools they name."""
    headers = f"linux-headers-{release}"
    parts = [d for d in apt.depends(headers) if d.startswith(("linux-headers-", "linux-kbuild-"))]
    binary = [d for d in apt.depends(f"linux-image-{release}") if d.endswith(f"-{release}")]
    return [f"linux-image-{release}", headers, *parts, *binary]


def _unpack(work: Path, release: str, part: Path) -> None:
    """Turn the packages in `work`/debs into the folder that `Unpacked` describes."""
    part.mkdir()
    (part / "lib").symlink_to("usr/lib")
    (part / "usr/lib").mkdir(parents=True)
    box = toolbox.Sandbox(rw={"/tmp/in": work / "debs", "/tmp/out": part})
    untar = "tar -x --keep-directory-symlink -C /tmp/out"
    script = f'for deb in /tmp/in/*.deb; do dpkg-deb --fsys-tarfile "$deb" | {untar}; done'
    toolbox.run(["sh", "-euc", script], box)
    image = part / "usr/lib/modules" / release / "vmlinuz"  # since 7.x
    data = payload((image if image.exists() else part / "boot" / f"vmlinuz-{release}").read_bytes())
    with progress.step(f"Kernel {release}: decompress"):
        tool = " ".join(decompressor(data))
        toolbox.run(["sh", "-euc", f"{tool} >/tmp/out/vmlinux"], box, stdin=data)
    if not (part / "vmlinux").read_bytes().startswith(b"\x7fELF"):
        raise SetupFailed(f"no ELF inside vmlinuz-{release}", "./sluice run … --kernel another")
    toolbox.run(["depmod", "-b", "/tmp/out", release], box)
