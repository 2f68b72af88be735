"""How the C library keeps memory for a process that runs for months."""

import ctypes

# From <malloc.h>.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
LARGE_BYTES = 128 << 10


def return_memory_early() -> None:
    """Let what is freed go back to the system; call it before anything large is allocated.

    glibc learns from pages of lists and columns of plans that a process often needs large pieces,
    and keeps them, in an area for every thread. They are needed for a second a minute. Fixed
    values, glibc's own defaults, keep it from learning. Other C libraries return memory anyway.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
    mallopt(M_TRIM_THRESHOLD, LARGE_BYTES)
    mallopt(M_ARENA_MAX, 1)
