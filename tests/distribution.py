"""Which tests go to one process together: those of a file, and those that share real nodes."""

from pathlib import PurePosixPath

from xdist.scheduler import LoadFileScheduling


class FilesAndRealNodes(LoadFileScheduling):
    """Files go to whichever process is free, and those with tests on real nodes by the folder.

    A process starts real nodes once, stops them after the last such test, and a machine has only so
    many inotify instances for kubelets: so few processes may have some at a time.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return f"{PurePosixPath(file).parent}, real nodes" if "real_nodes" in file else file
