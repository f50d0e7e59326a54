"""Which options of gates do not go together."""

import pytest

from pytest_agentv.models.options.run_options import RunOptions


def check_gates(options: RunOptions) -> None:
    """Raise `pytest.UsageError` for a gate without a case to judge."""
    if options.gate in ("run", "strict"):
        if options.baseline is None and options.min_rate is None and not options.gates:
            needs = "--agentv-baseline, --agentv-min-rate or agentv_gates"
            raise pytest.UsageError(f"--agentv-gate={options.gate} has nothing to judge the run by: it needs {needs}")
    elif options.min_rate is not None and options.gate == "cases":
        raise pytest.UsageError("--agentv-min-rate judges the run as a whole: it needs --agentv-gate=run or strict")
