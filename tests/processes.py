"""Processes that tests compute in. They end with the test process, however that ends."""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from threading import Thread

PROCESSES = 2


def new_pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        PROCESSES, mp_context=get_context("spawn"), initializer=_end_with_parent
    )


def _end_with_parent() -> None:
    """Without this, processes of a pool whose owner is killed compute on and wait forever."""
    parent = parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(1)

    Thread(target=end, daemon=True).start()
