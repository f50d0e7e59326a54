"""Makes the values of the plugin's fixtures."""

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import NoReturn

import pytest

from pytest_agentv.engine.overrides import OWN_PROVIDER
from pytest_agentv.engine.targets.choosing import choose_target
from pytest_agentv.errors import AgentvError
from pytest_agentv.loading.files.source import folder_of
from pytest_agentv.loading.targets.definitions import TargetDefinition
from pytest_agentv.loading.targets.environment import find_repo_root
from pytest_agentv.loading.targets.files import find_targets_file, load_targets_file
from pytest_agentv.models.base import Json
from pytest_agentv.models.masking.secret_rule import is_secret_name
from pytest_agentv.models.masking.secrets import MASK
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.providers.table import KINDS
from pytest_agentv.session.compat import allow_to_pass, uses_own_fixture
from pytest_agentv.session.hooking.kinds import FolderKinds
from pytest_agentv.session.options import run_options
from pytest_agentv.session.platforms import obstacle
from pytest_agentv.session.python.evals import Agentv
from pytest_agentv.session.running.eval_session import EvalSession
from pytest_agentv.session.running.hooks import participate
from pytest_agentv.session.running.target_caller import TargetCaller, caller_of, overrides
from pytest_agentv.session.showing.report_masking import mask_from_now_on


def options_of(config: pytest.Config) -> RunOptions:
    try:
        return run_options(config)
    except pytest.UsageError as error:
        _fail(error)


def targets_of(config: pytest.Config) -> Mapping[str, TargetDefinition]:
    """Return the content of the targets file. Masks texts under names of secrets."""
    cwd = config.invocation_params.dir
    try:
        path = find_targets_file(options_of(config).targets, cwd, find_repo_root(cwd), cwd)
        file = load_targets_file(path, KINDS.with_own(FolderKinds(config, "pytest_agentv_providers")(cwd)))
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
    if not __debug__:
        from pytest_agentv.session.python.asserts import left_out  # noqa: PLC0415 - only for `python -O`

        if reason := left_out(item):
            pytest.fail(reason, pytrace=False)
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
