"""What a run remembers of the targets files of its eval folders."""

from pathlib import Path

import pytest

from pytest_agentv.engine.pool import FolderTargets, Places
from pytest_agentv.errors import AgentvError
from pytest_agentv.model.kind_table import no_kinds
from pytest_agentv.model.run_options import RunOptions
from pytest_agentv.model.secrets import Masker
from pytest_agentv.store.fingerprints import Fingerprints

GOOD = "targets: [{name: default, provider: mock}]\n"


@pytest.mark.parametrize(
    ("text", "strict", "told"),
    [
        ("targets: [{name: default}]\n", False, "provider: is missing"),
        ("targets: [broken\n", False, "targets.yaml:"),
        ("targets: [{name: default, provider: mock, respons: x}]\n", True, "respons"),
    ],
)
def test_a_broken_targets_file_is_read_once(tmp_path: Path, text: str, strict: bool, told: str) -> None:
    """Each case read it again: 150 cases with 150 targets took three times as long."""
    path = tmp_path / "targets.yaml"
    path.write_text(text)
    folders = FolderTargets(
        RunOptions(strict=strict), Places(tmp_path, tmp_path), Masker(), no_kinds, Fingerprints([], lambda *_: None)
    )
    frames = set()
    texts = []
    for _ in range(3):
        with pytest.raises(AgentvError, match=told) as caught:
            folders.file(tmp_path)
        frames.add(len(caught.traceback))
        texts.append(str(caught.value))
        path.write_text(GOOD)  # would be found if it were read again
    assert len(set(texts)) == 1
    assert frames == {2}, "what is raised again does not grow"
