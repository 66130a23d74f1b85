"""A scheduler that is lost in the middle of a fit is an error that says so."""

import contextlib
import logging
import subprocess
import sys
import threading
import time

import dask.array as da
import pytest

from mondrian_kernel.dask import DaskMondrianFeatures

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
        [sys.executable, "-c", SCHEDULER], stdout=subprocess.PIPE, text=True, cwd=tmp_path,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
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
