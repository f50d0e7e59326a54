"""The file of the answers: several connections and processes use it at once."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from pytest_agentv.store.answers import connect

OTHER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("insert into run values(hex(randomblob(4)), 'f', 1)")
db.close()
"""


def test_a_second_connection_leaves_the_first_one_its_locks(tmp_path: Path) -> None:
    """Another process took itself for the last one, deleted the log of changes, and the rows after that were lost."""
    path = tmp_path / "answers.sqlite"
    with closing(connect(path)) as writer, closing(connect(path)) as reader:
        writer.execute("insert into run values('ours', 'f', 1)")
        for _ in range(2):
            subprocess.run([sys.executable, "-c", OTHER, path], check=True)
            writer.execute("insert into run values(hex(randomblob(4)), 'f', 1)")
        assert reader.execute("select count(*) from run").fetchone() == (5,)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select count(*) from run").fetchone() == (5,)
