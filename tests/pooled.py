"""A plugin of runs: their cases run in two forked processes. `TWO` are its flags."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Final

TWO: Final = ("-p", "pooled", "-W", "ignore:Module already imported", "-o", f"pythonpath={Path(__file__).parent}")


def pytest_agentv_executor() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, mp_context=get_context("fork"))
