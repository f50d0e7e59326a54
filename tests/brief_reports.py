"""Tell the controller of a test that passes in one message: pytest-xdist sends three reports, and two more messages."""

from typing import Any

import pytest
from _pytest.runner import runtestprotocol  # noqa: TID251 - what plugins for reruns call


class BriefReports:
    """A plugin of a worker. A report that does not pass is sent, and so is that of the test itself."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed:
                item.ihook.pytest_runtest_logreport(report=report)
        return True


def are_enough(config: Any) -> bool:
    """Whether nobody asks for the names of tests while they run, or for how long their fixtures take."""
    options = config.option
    return hasattr(config, "workerinput") and not (options.verbose > 0 or options.durations or options.xmlpath)
