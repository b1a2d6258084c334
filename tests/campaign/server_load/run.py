"""Runs servers of several models, and trials against all of them, until the deadline."""

import asyncio
import random
import time
from pathlib import Path

from tests.campaign.findings import Report
from tests.campaign.server_load.load import ServerLoad, child_of
from tests.campaign.server_load.process import ServerProcess
from tests.campaign.server_load.reporter import Reporter

# A model of each task type, a pre-trained model and an ensemble.
MODELS = ("classify", "run", "answer", "tag", "choose", "regress", "ensemble")
SECONDS_PER_MODEL = 15.0  # a shorter campaign has fewer servers
_LOADED_SERVERS = 2  # at a time
_END_SECONDS = 10.0  # for the last rounds and the end of the servers


def run_part(report: Report, examples: Path, work: Path, rng: random.Random, deadline: float) -> None:
    """Run trials against servers until the deadline."""
    seconds = deadline - time.monotonic()
    models = rng.sample(MODELS, k=max(1, min(len(MODELS), int(seconds / SECONDS_PER_MODEL))))
    reporter = Reporter(report, examples, work)
    servers = [ServerProcess(model, examples, work / f"{model}.log") for model in models]
    try:
        for server in servers:
            server.wait_until_ready()
        # A flood makes the server close slow connections early, so one server gets no floods.
        loads = [
            ServerLoad(
                server, reporter, child_of(rng), has_floods=len(servers) == 1 or server is not servers[0]
            )
            for server in servers
        ]
        asyncio.run(_run_all(loads, deadline - _END_SECONDS))
        for server in servers:
            server.terminate()
        for load in loads:
            load.check_stopped()
    finally:
        for server in servers:
            server.kill()


async def _run_all(loads: list[ServerLoad], deadline: float) -> None:
    turns = asyncio.Semaphore(_LOADED_SERVERS)
    await asyncio.gather(*(load.run(turns, deadline) for load in loads))
