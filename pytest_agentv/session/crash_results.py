"""The results of cases on which a worker died, made up by the controller: the worker could not."""

from pathlib import Path

from pytest_agentv.engine.results import CaseIdentity, error_result
from pytest_agentv.engine.targets import choose_target
from pytest_agentv.errors import AgentvError
from pytest_agentv.loading.suites import CaseEntry, SuiteSource, read_suite
from pytest_agentv.models.options import RunOptions
from pytest_agentv.models.results import EvalResult
from pytest_agentv.session.identity import RunIdentity
from pytest_agentv.session.names import unique_names


def crash_result(node_id: str, message: str, root: Path, run: RunIdentity, options: RunOptions) -> EvalResult:
    """Return the error of a case of which the controller has seen the node id only: its file tells the rest."""
    file, _, name = node_id.partition("::")
    suite, entry = _find(root / file, name.rpartition("@")[0] or name, name)
    identity = CaseIdentity(
        eval_id=entry.eval_id if entry and entry.eval_id else name,
        dataset=suite.dataset if suite else Path(file).stem,
        target=choose_target(options, suite.target if suite else None),
        eval_file=file,
        line=entry.line if entry else 1,
        node_id=node_id,
        run_id=run.run_id,
    )
    return error_result(identity, "setup", "crash", message, dry_run=options.dry_run)


def _find(path: Path, *names: str) -> tuple[SuiteSource | None, CaseEntry | None]:
    try:
        suite = read_suite(path)
    except AgentvError:
        return None, None
    by_name = dict(zip(unique_names(entry.eval_id for entry in suite.entries), suite.entries, strict=True))
    return suite, next((by_name[name] for name in names if name in by_name), None)
