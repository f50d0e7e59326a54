"""Makes the values of the plugin's fixtures, and prepares runs of tests that evaluate."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import NoReturn

import pytest

from pytest_agentv.engine.jobs import OWN_PROVIDER, choose_target
from pytest_agentv.errors import AgentvError
from pytest_agentv.files.source import folder_of
from pytest_agentv.model.base import Json
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.secrets import MASK, is_secret_name
from pytest_agentv.providers.table import KINDS
from pytest_agentv.session.compat import allow_to_pass, overridden_fixtures, uses_own_fixture
from pytest_agentv.session.options import run_options
from pytest_agentv.session.outcomes import obstacle
from pytest_agentv.session.python.evals import Agentv
from pytest_agentv.session.recording.identity import check_resumed, run_identity
from pytest_agentv.session.running.hooks import participate
from pytest_agentv.session.running.items import TargetCaller, caller_of, overrides
from pytest_agentv.session.running.session import EvalSession
from pytest_agentv.session.selecting import select_retried
from pytest_agentv.session.showing.masking import mask_from_now_on
from pytest_agentv.session.showing.terminal import RunReporter
from pytest_agentv.session.user_hooks import FolderKinds
from pytest_agentv.targets.definitions import TargetDefinition, find_repo_root
from pytest_agentv.targets.files import find_targets_file, load_targets_file

# Makes the values of the plugin's fixtures.


def options_of(config: pytest.Config) -> RunOptions:
    try:
        return run_options(config)
    except pytest.UsageError as error:
        _fail(error)


def targets_of(config: pytest.Config) -> Mapping[str, TargetDefinition]:
    """Return the content of the targets file. Masks texts under names of secrets."""
    cwd = config.invocation_params.dir
    try:
        options = options_of(config)
        path = find_targets_file(options.targets_file, cwd, find_repo_root(cwd), cwd)
        kinds = KINDS.with_own(FolderKinds(config, "pytest_agentv_providers")(cwd))
        file = load_targets_file(path, kinds, options.unknown_keys)
    except AgentvError as error:
        _fail(error)
    shown = (definition.replace(values=_without_secrets(definition.values)) for definition in file.definitions)
    return MappingProxyType({definition.name: definition for definition in shown})


def target_of(options: RunOptions) -> str:
    return choose_target(options, None)


def provider_of(item: pytest.Item, target: str) -> TargetCaller:
    return caller_of(item, lambda: _join(item), target)


def take_part(item: pytest.Item) -> None:
    """Take part in the run for a test that evaluates. The fixture `agentv` reports why that is impossible."""
    runs = not item.config.getoption("setupplan", default=False)
    if runs and obstacle() is None and uses_own_fixture(item, "agentv"):
        with suppress(pytest.UsageError, AgentvError):
            _join(item)


def agentv_of(item: pytest.Item, target: str, provider: object, judge: object) -> Agentv:
    try:
        session = _join(item)
    except (pytest.UsageError, AgentvError) as error:
        _fail(error)
    if session.options.dry_run:
        allow_to_pass(item)  # mocked answers pass
    own = overrides(item, provider, judge)
    session.skip_unasked(item.path, target, has_own_target=OWN_PROVIDER in own.fixtures)
    return Agentv(item, session, target, own)


def _join(item: pytest.Item) -> EvalSession:
    """Return the run's session. From now on, what the reports of the item show is masked."""
    session = participate(item.config)
    session.learn_secrets(folder_of(item.path))
    mask_from_now_on(item)
    return session


def _fail(error: Exception) -> NoReturn:
    __tracebackhide__ = True
    pytest.fail(str(error), pytrace=False)


def _without_secrets(value: Json, key: str = "") -> Json:
    if isinstance(value, Mapping):
        return {name: _without_secrets(item, str(name)) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    return MASK if isinstance(value, str) and is_secret_name(key) else value


# Prepares the run of tests that evaluate, if no eval file was collected.


def join(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the tests of `--agentv-retry-errors`, and add tests to the verdict on the run before any is deselected.

    An incomplete run gets no verdict. Raises `pytest.UsageError` if the run cannot be judged or resumed.
    """
    if obstacle() is not None or config.getoption("collectonly"):
        return
    options = run_options(config)
    check_resumed(config)
    if options.retries_only and (is_retried := run_identity(config, options).retried_items()) is not None:
        select_retried(config, items, is_retried)
    if not options.judges_run or options.shard is not None:  # a shard gets no verdict, and divides the items by itself
        return
    session = participate(config)
    if not hasattr(config, "workerinput"):
        reporter = RunReporter.register(config, session.identity, session.options)
        reporter.check_verdict([item.nodeid for item in items])


# Evals in Python, once for each of several targets.


def parametrize_targets(metafunc: pytest.Metafunc, targets: Sequence[str]) -> None:
    """Run a test once for each target, unless it or a fixture of its project chooses the target."""
    if overridden_fixtures(metafunc.definition, ["agentv_target"]):
        return
    marks = metafunc.definition.iter_markers("parametrize")
    chosen = any("agentv_target" in str(mark.args[:1] or mark.kwargs.get("argnames")) for mark in marks)
    if not chosen:
        metafunc.parametrize("agentv_target", targets)
