"""What a process has freed, it does not keep."""

import subprocess
import sys
from pathlib import Path

import pytest

FREE_AND_COUNT = """
import resource
import sys
from rescheduler.process_memory import return_memory_early

if sys.argv[1] == "early":
    return_memory_early()

def resident_mib():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() >> 20

# From now on glibc would expect pieces of this size.
piece = bytearray(1 << 20)
del piece
pieces = [bytearray(1 << 20) for _ in range(64)]
small = [bytearray(1000) for _ in range(1000)]
full = resident_mib()
del pieces
print(full - resident_mib())
"""


def freed_mib(how: str) -> int:
    """How much memory goes back to the system when 64 MiB are freed."""
    command = [sys.executable, "-c", FREE_AND_COUNT, how]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc of Linux")
def test_large_pieces_that_are_freed_go_back_to_the_system() -> None:
    assert freed_mib("early") >= 60
