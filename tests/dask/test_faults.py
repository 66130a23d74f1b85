"""A scheduler that is lost, and workers that die, are errors that say so."""

import contextlib
import logging
import subprocess
import sys
import threading
import time

import dask.array as da
import pytest

from mondrian_kernel.dask import DaskMondrianFeatures
from mondrian_kernel.dask.cluster import clear_errors

distributed = pytest.importorskip("distributed")

SCHEDULER = """
import asyncio, sys
from distributed import Scheduler, Worker

async def main():
    async with Scheduler(host="127.0.0.1", port=0, dashboard_address=None) as scheduler:
        async with Worker(scheduler.address, nthreads=1, dashboard_address=None):
            print(scheduler.address, flush=True)
            await scheduler.finished()

asyncio.run(main())
"""


def test_a_lost_scheduler_is_an_error(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", SCHEDULER],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
    )
    logger = logging.getLogger("distributed.client")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    client = distributed.Client(process.stdout.readline().strip())

    def slowly(block):
        time.sleep(2.0)
        return block

    try:
        killer = threading.Timer(1.0, process.kill)
        X = da.zeros((9, 2), chunks=(3, 2)).map_blocks(slowly, dtype=float)
        killer.start()
        with pytest.raises(RuntimeError, match="scheduler was lost"):
            DaskMondrianFeatures(1.0, 10).fit(X)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        with contextlib.suppress(TimeoutError):
            client.close(timeout=1)
        logger.setLevel(level)


def test_workers_that_die_of_a_block_are_an_error():
    killed = distributed.KilledWorker("task", "worker", 3)
    with pytest.raises(RuntimeError, match="want of memory") as caught, clear_errors():
        raise killed
    assert caught.value.__cause__ is killed


def test_other_errors_are_left_alone():
    with pytest.raises(ValueError, match=r"^as it is$"), clear_errors():
        raise ValueError("as it is")
