"""Finds the items of cases that the command line names by their ids."""

import pytest

from pytest_agentv.loading.files.discovery import is_eval_file
from pytest_agentv.session.names import clean_name
from pytest_agentv.session.options import eval_globs


def write_names(config: pytest.Config) -> None:
    """Write node ids such as `a.eval.yaml::b[1]`, in place, as their items are named: `a.eval.yaml::b(1)`."""
    for words in (config.args, config.getoption("deselect", None) or []):
        words[:] = [_item_name(str(word), config) for word in words]


def _item_name(word: str, config: pytest.Config) -> str:
    file, separator, eval_id = word.partition("::")
    if clean_name(eval_id) == eval_id:
        return word
    path, globs = config.invocation_params.dir / file, eval_globs(config)
    is_ours = path.is_file() and is_eval_file(path, root=config.rootpath, is_named=True, globs=globs)
    return f"{file}{separator}{clean_name(eval_id)}" if is_ours else word
