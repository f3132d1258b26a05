# SPDX-License-Identifier: GPL-2.0-only
"""The guest's disk and initramfs: Debian 13 with fio, and those of a kernel's modules that guests need."""

from __future__ import annotations

import hashlib
import io
import lzma
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from functools import cache as memo
from pathlib import Path
from typing import IO, cast

from lab import cache, progress, toolbox
from lab.kernels import Unpacked

PACKAGES = (
    *("fio", "sysbench", "kmod", "mount", "util-linux", "e2fsprogs", "xfsprogs", "procps", "gawk", "libaio1t64"),
    # what iolat needs, and the programs that it is measured beside
    *("libelf1t64", "libbpf-tools", "dmsetup"),
)
LEAN = tuple(f"--dpkgopt=path-exclude=/usr/share/{d}/*" for d in ("doc", "man", "locale", "info", "perl", "i18n"))
# mmdebstrap copies these files from the host: without them the same packages give the same bytes on every host.
HOSTS_OWN = ('--customize-hook=cd "$1" && rm -f etc/hostname etc/resolv.conf etc/apt/sources.list',)
# The modules that the guest needs to reach its root.
BOOT_MODULES = ("nfit", "nd_pmem", "crc32c_generic", "ext4", "overlay", "configfs")
# The modules that experiments and tests ask for.
GUEST_MODULES = (
    *BOOT_MODULES,
    *("bfq", "kyber-iosched", "mq-deadline"),
    *("null_blk", "scsi_debug", "sd_mod", "loop", "dm-mod", "dm-flakey", "dm-delay", "dm-multipath"),
    *("dm-round-robin", "nvme", "nvme-tcp", "nvmet-tcp"),
    *("xfs", "btrfs", "ext4", "libcrc32c", "crc32c-intel"),
)
IDENTITY = "5e3df1ab-7b0c-4d0e-9d62-51a1ce000001"
GUEST = Path(__file__).parent / "guest"
MIB = 1 << 20


def rootfs() -> Path:
    """The guest's files without a kernel's modules, as a tar (about 40 s on first use)."""
    options = (*LEAN, *HOSTS_OWN)

    def make(part: Path) -> None:
        toolbox.bootstrap(PACKAGES, "Guest image: Debian 13 with fio", part, "--variant=essential", *options)

    return cache.once(cache.root() / f"rootfs-{cache.key(toolbox.SUITE, *PACKAGES, *options)}.tar", make)


@memo
def digest(path: Path) -> str:
    """The digest of a file's bytes (half a second, once per process)."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@memo
def status() -> str:
    """dpkg's list of the packages in the guest."""
    with tarfile.open(rootfs()) as tar:
        return cast(IO[bytes], tar.extractfile("./var/lib/dpkg/status")).read().decode()


def identity(kernel: Unpacked) -> str:
    """A name for the inputs and tools of a kernel's image, independent of when and where it is made."""
    return cache.key(digest(rootfs()), toolbox.identity(), kernel.release, *GUEST_MODULES)


def image(kernel: Unpacked) -> Path:
    """An ext4 image of the root with a kernel's modules; the same inputs give the same bytes."""
    path = cache.root() / f"image-{kernel.release}-{identity(kernel)}.ext4"
    return cache.once(path, lambda part: make(kernel, part))


def make(kernel: Unpacked, path: Path) -> None:
    """Make a kernel's image at a path."""
    with progress.step(f"Guest image for {kernel.release}"), cache.scratch() as work:
        tar = work / "root.tar"
        shutil.copyfile(rootfs(), tar)
        add_modules(tar, kernel)
        make_ext4(tar, path)


def make_ext4(tar: Path, image: Path) -> None:
    """Make an ext4 image of a tar's content, without a journal, with fixed identifiers and times."""
    size = -(-(tar.stat().st_size * 5 // 4) // (128 * MIB)) * 128
    args = ["mkfs.ext4", "-q", "-F", "-O", "^has_journal,^orphan_file", "-m", "0", "-U", IDENTITY]
    args += ["-E", f"hash_seed={IDENTITY},lazy_itable_init=0", "-d", f"/tmp/in/{tar.name}"]
    box = toolbox.Sandbox(ro={"/tmp/in": tar.parent}, rw={"/tmp/out": image.parent})
    toolbox.run([*args, f"/tmp/out/{image.name}", f"{size}M"], box, env={"SOURCE_DATE_EPOCH": "1767225600"})


def add_modules(tar: Path, kernel: Unpacked) -> None:
    """Append the guest's modules and their index to a tar."""
    prefix = f"usr/lib/modules/{kernel.release}"
    with cache.scratch() as stage, tarfile.open(tar, "a") as out:
        _stage(kernel, stage / prefix)
        (stage / "lib").symlink_to("usr/lib")
        toolbox.run(["depmod", "-b", "/tmp/stage", kernel.release], toolbox.Sandbox(rw={"/tmp/stage": stage}))
        _add_tree(out, stage, stage / "usr/lib/modules")


def _stage(kernel: Unpacked, target: Path) -> None:
    """Lay out the modules, decompressed, with the lists that depmod reads, as a package would."""
    for relative, data in modules(kernel, GUEST_MODULES):
        path = target / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        (target / name).write_bytes((kernel.modules / name).read_bytes())


def _add_tree(out: tarfile.TarFile, base: Path, top: Path) -> None:
    for path in [top, *sorted(top.rglob("*"))]:
        info = out.gettarinfo(str(path), f"./{path.relative_to(base)}")
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mtime = 1767225600
        info.mode = 0o755 if info.isdir() else 0o644
        if info.isreg():
            with path.open("rb") as handle:
                out.addfile(info, handle)
        else:
            out.addfile(info)


def modules(kernel: Unpacked, wanted: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """The named modules and all that they depend on, in loading order: path without compression suffix, content."""
    table = parse_dependencies((kernel.modules / "modules.dep").read_text(encoding="utf-8"))
    for path in closure(table, wanted):
        data = (kernel.modules / path).read_bytes()
        yield path.removesuffix(".xz"), lzma.decompress(data) if path.endswith(".xz") else data


def parse_dependencies(text: str) -> dict[str, list[str]]:
    """modules.dep as a table: path to the paths it needs, the first needed one last."""
    table = {}
    for line in text.splitlines():
        path, _, needs = line.partition(":")
        table[path] = needs.split()
    return table


def closure(table: dict[str, list[str]], wanted: Iterable[str]) -> list[str]:
    """Paths of the wanted modules after those that they need; a name without a module here is built in and left out."""
    by_name = {_name(path): path for path in table}
    order: dict[str, None] = {}
    for name in wanted:
        path = by_name.get(_name(name))
        if path is not None:
            order.update(dict.fromkeys([*reversed(table[path]), path]))
    return list(order)


def boot_inputs() -> list[str | bytes]:
    """The inputs of an initramfs, besides the kernel and the toolbox."""
    return [*BOOT_MODULES, (GUEST / "init").read_bytes(), (GUEST / "agent").read_bytes()]


def initramfs(kernel: Unpacked) -> bytes:
    """A cpio archive: busybox, the modules on the way to the root, and the guest's two scripts."""
    loading = list(modules(kernel, BOOT_MODULES))
    files = [(f"modules/{_name(path)}.ko", data) for path, data in loading]
    order = "".join(f"{_name(path)}\n" for path, _ in loading).encode()
    files += [("modules/order", order), ("init", (GUEST / "init").read_bytes())]
    files += [("agent", (GUEST / "agent").read_bytes())]
    files += [("bin/busybox", (toolbox.path() / "usr/bin/busybox").read_bytes())]
    return cpio(["bin", "modules", "dev", "proc", "sys", "lower", "rw", "new"], files)


def cpio(folders: Iterable[str], files: Iterable[tuple[str, bytes]]) -> bytes:
    """A newc archive whose bytes depend on nothing but its arguments; every file is executable."""
    out = io.BytesIO()
    for number, (name, mode, data) in enumerate(
        [*((f, 0o040755, b"") for f in folders), *((n, 0o100755, d) for n, d in files), ("TRAILER!!!", 0, b"")]
    ):
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        _pad(out, b"070701" + b"".join(b"%08x" % f for f in fields) + name.encode() + b"\0")
        _pad(out, data)
    return out.getvalue()


def _pad(out: io.BytesIO, data: bytes) -> None:
    out.write(data + b"\0" * (-(out.tell() + len(data)) % 4))


def _name(path: str) -> str:
    """A module's name as the kernel writes it."""
    return path.rsplit("/", 1)[-1].split(".ko", maxsplit=1)[0].replace("-", "_")
