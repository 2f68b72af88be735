"""Write the modules that an older version of Kubernetes is built from.

Kubernetes names the versions of what it needs in its own go.mod; only its staging modules, which it
has in its repository, have to be replaced by those that are published.
"""

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from testcluster.cache import report
from testcluster.toolchain import SOURCES, BuildError, find_toolchain, needed_version

_ETCD = "go.etcd.io/etcd/server/v3"
_STAGING = re.compile(r"^\s*(k8s\.io/\S+) => \./staging/", re.MULTILINE)


def pin(version: str) -> Path:
    """Write `versions/1.35.mod` and its checksums for a version such as 1.35.8."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        kubernetes = json.loads(
            go(folder, "mod", "download", "-json", f"k8s.io/kubernetes@v{version}")
        )
        (folder / "go.mod").write_text(modules(version, Path(kubernetes["GoMod"]).read_text()))
        for source in ("main.go", "node/main.go"):
            (folder / source).parent.mkdir(exist_ok=True)
            shutil.copy(SOURCES / source, folder / source)
        go(folder, "mod", "tidy")
        pinned = SOURCES / "versions" / f"{version.rpartition('.')[0]}.mod"
        shutil.copy(folder / "go.mod", pinned)
        shutil.copy(folder / "go.sum", pinned.with_suffix(".sum"))
    report(f"Wrote {pinned}.")
    return pinned


def modules(version: str, of_kubernetes: str) -> str:
    """The go.mod before `go mod tidy`, from that of Kubernetes."""
    etcd = re.search(rf"{_ETCD} (\S+)", of_kubernetes)
    assert etcd, "Kubernetes requires etcd"
    published = f"v0.{version.partition('.')[2]}"
    replaced = [f"{name} => {name} {published}" for name in _STAGING.findall(of_kubernetes)]
    lines = [
        "module kube-rescheduler/testcluster",
        f"go {needed_version()}",
        *("require (", f"{_ETCD} {etcd[1]}", f"k8s.io/kubernetes v{version}", ")"),
        *("replace (", *replaced, ")"),
    ]
    return "\n".join(lines) + "\n"


def go(folder: Path, *arguments: str) -> str:
    """The output of a `go` command."""
    command = [str(find_toolchain().go), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"go {' '.join(arguments)} failed:\n{done.stdout}{done.stderr[-3000:]}")
    return done.stdout
