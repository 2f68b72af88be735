"""Put together what the image needs besides our packages: Python, its libraries, and who is who.

Runs while the image is built, with the Python that the image gets: `assemble.py ROOT`.
"""

import compileall
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from py_compile import PycInvalidationMode

PACKAGES = "opt/rescheduler"
USER = "nonroot:x:65532:65532:nonroot:/nonexistent:/usr/sbin/nologin\n"
GROUP = "nonroot:x:65532:\n"
PROGRAM = "from rescheduler.cli import main\n\nraise SystemExit(main())\n"
# Of the standard library: what a server does not need, above all what needs further libraries.
LEFT_OUT = (
    *("test", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "turtledemo", "__pycache__"),
    *("site-packages", "dist-packages", "config-*"),
    *("tkinter", "curses", "sqlite3", "dbm"),
    *("_tkinter.*", "_curses*", "_sqlite3.*", "_dbm.*", "_gdbm.*", "readline.*", "nis.*"),
)


def main() -> None:
    """Fill the root directory of the image."""
    root = Path(sys.argv[1])
    packages = root / PACKAGES
    # Programs of other packages; ours is written below.
    for unused in (packages / "bin", *packages.rglob("tests")):
        shutil.rmtree(unused)
    interpreter = Path(sys.executable).resolve()
    copied = [interpreter, *standard_library(root), *package_libraries(packages)]
    copied += [copy(library, root) for library in needed_libraries(copied, packages)]
    copy(interpreter, root)
    # It says where the base keeps libraries, such as /usr/local/lib.
    copy(Path("/etc/ld.so.cache"), root)
    write(root / "etc/passwd", USER)
    write(root / "etc/group", GROUP)
    write(root / "usr/bin/rescheduler", f"#!{interpreter}\n{PROGRAM}", mode=0o755)
    for name, status in debian_packages(copied):
        write(root / "var/lib/dpkg/status.d" / name, status)
    compile_modules(root)


def standard_library(root: Path) -> Iterator[Path]:
    """Copy the standard library; yields its extension modules."""
    directory = Path(sysconfig.get_path("stdlib"))
    target = root / directory.relative_to("/")
    shutil.copytree(directory, target, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    for module in (target / "lib-dynload").glob("*.so"):
        yield directory / "lib-dynload" / module.name


def package_libraries(packages: Path) -> list[Path]:
    """The extension modules of our dependencies, and the libraries that they bring."""
    return [file for file in packages.rglob("*.so*") if file.is_file()]


def needed_libraries(files: Iterable[Path], packages: Path) -> set[Path]:
    """The libraries of the base that these files need, directly or not."""
    needed = set()
    for file in files:
        for name, library in libraries_of(file).items():
            if library is None:
                sys.exit(f"{file} needs {name}, which the base does not have")
            if not library.resolve().is_relative_to(packages.resolve()):
                needed.add(library)
    return needed


def libraries_of(file: Path) -> dict[str, Path | None]:
    """The libraries that the loader loads for a file, by name; None for one that it lacks."""
    found = subprocess.run(["ldd", file], capture_output=True, text=True, check=False).stdout
    libraries: dict[str, Path | None] = {}
    for line in found.splitlines():
        if match := re.match(r"\s*(\S+) => (not found|\S+)", line):
            libraries[match[1]] = None if match[2] == "not found" else Path(match[2])
        elif match := re.match(r"\s*(/\S+) \(", line):
            libraries[match[1]] = Path(match[1])
    return libraries


def compile_modules(root: Path) -> None:
    """Compile all modules: it would take each start of the program five times as long."""
    compileall.compile_dir(
        root, quiet=1, stripdir=str(root), invalidation_mode=PycInvalidationMode.UNCHECKED_HASH
    )


def copy(file: Path, root: Path) -> Path:
    """Copy a file of the base to the same place in the image, as what it links to."""
    target = root / file.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(file, target)
    return file


def write(file: Path, content: str, mode: int = 0o644) -> None:
    """Write a text file of the image."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    file.chmod(mode)


def debian_packages(files: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """The Debian packages that files are from, with their status, where scanners look for it.

    On another system, and for a Python that is not Debian's, there is none.
    """
    if shutil.which("dpkg-query") is None:
        return
    # Where /lib is a link to /usr/lib, the database knows a file by one of both names.
    names = {
        str(name)
        for file in files
        for name in (file, file.resolve(), Path("/usr", *file.parts[1:]))
    }
    # It exits with 1 because it knows only one name of each.
    answer = subprocess.run(
        ["dpkg-query", "--search", *sorted(names)], capture_output=True, text=True, check=False
    )
    found = {line.split(":")[0] for line in answer.stdout.splitlines()}
    for package in sorted(found):
        status = subprocess.run(
            ["dpkg-query", "--status", package], capture_output=True, text=True, check=True
        )
        yield package, status.stdout


if __name__ == "__main__":
    main()
