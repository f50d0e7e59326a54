"""The files of a run: its results, the results of the resumed run, and single answers."""

from typing import TYPE_CHECKING

from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.reporting.writers import ResultSink
from pytest_agentv.session.recording.identity import RunIdentity
from pytest_agentv.session.recording.journal import FinishedCases
from pytest_agentv.session.recording.recorder import Recorder
from pytest_agentv.session.recording.run_results import KnownLines
from pytest_agentv.session.recording.travel import TravellingSink

if TYPE_CHECKING:  # for repeated cases only
    from pytest_agentv.session.recording.answers import AnswerJournal


class RunRecords:
    """Opens the files of a run when they are needed, and closes them in the end."""

    def __init__(self, identity: RunIdentity, options: RunOptions, masker: Masker, *, is_worker: bool) -> None:
        self.known = KnownLines()
        tell, home = None if is_worker else self.known.note, identity.home  # a worker's controller reads the file
        sink = ResultSink(identity.results_path, options.output_format, masker, tell)
        self.travelling = None if home is None or home.is_here() else TravellingSink(sink)
        """Collects the lines that reports take to the controller, if this process cannot write to the results file."""
        self.recorder = Recorder(self.travelling or sink)
        self.finished = FinishedCases(identity, with_errors=not options.retry_errors, is_worker=is_worker)
        self._results_path = identity.results_path
        self._masker = masker
        self._answers: AnswerJournal | None = None

    def open_answers(self) -> "AnswerJournal | None":
        """Open the file of single answers; None: this process cannot write to the files of the run."""
        from pytest_agentv.session.recording.answers import AnswerJournal  # noqa: PLC0415 - only for repeated cases

        if self.travelling is None:
            self._answers = AnswerJournal(self._results_path, self._masker)
        return self._answers

    def close(self) -> None:
        self.recorder.close()
        if self._answers is not None:
            self._answers.close()
