"""Loads evaluators as an eval file has them, and runs them on an answer."""

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.cases.evaluators import load_evaluators
from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.cases.references import References, Scope
from pytest_agentv.evaluators.context import Context, Services
from pytest_agentv.evaluators.run import run_evaluator
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.files.places import Place
from pytest_agentv.files.source import read_yaml
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import Message, ToolCall
from pytest_agentv.model.results import EvaluatorResult

CASE = EvalCase("c", "d", "/e/x.eval.yaml", 1, "outcome", "q", (), ())


@dataclass
class Judge:
    """Finds the statements true that the answer contains word by word."""

    name: str = "judge"
    asked: list[str] = field(default_factory=list)

    async def ask(self, system_prompt: str, user_prompt: str, context: Context, schema: object = None) -> str:
        self.asked.append(user_prompt)
        found = re.findall(r"^- \[([\w-]+)\](?: \(.*?\))?: (.*)$", user_prompt, re.MULTILINE)
        checks = [
            {"id": name, "satisfied": text in context.candidate_answer, "reasoning": ""}
            for name, text in found
            if text != "left out"
        ]
        return json.dumps({"checks": checks, "overall_reasoning": "so it is"})


@dataclass
class Bench:
    """A folder with an eval file."""

    folder: Path
    judge: Judge = field(default_factory=Judge)

    def load(self, *items: Any) -> tuple[Sequence[Any], list[str]]:
        """Return the evaluators of a list, and its faults; each item stands on a line of its own, from line 2."""
        path = self.folder / "qa.yaml"
        path.write_text("evaluators:\n" + "".join(f"  - {json.dumps(item)}\n" for item in items), "utf-8")
        source = read_yaml(path)
        place = Place(source, ("evaluators",), [])
        references = References(self.folder, self.folder, self.folder)
        found = load_evaluators(Scope(source.value["evaluators"], place, references, EVALUATORS))
        return found, [str(problem).replace(str(self.folder), "") for problem in place.problems]

    def one(self, item: Any) -> Any:
        found, faults = self.load(item)
        assert faults == []
        return found[0]

    def judged(self, item: Any, answer: str, **given: Any) -> EvaluatorResult:
        """Return the result of one evaluator for an answer."""
        context = Context(CASE, Prompt("q"), answer, services=Services(judge=self.judge))
        return asyncio.run(run_evaluator(self.one(item), context.replace(**given)))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "checks.py").write_text("def is_short(answer):\n    return len(answer) < 10\n")
    return Bench(tmp_path)


@pytest.fixture
def called() -> Callable[..., Mapping[str, Any]]:
    """Return what a context has where tools were called."""

    def messages(*calls: str | ToolCall) -> Mapping[str, Any]:
        told = tuple(ToolCall(call) if isinstance(call, str) else call for call in calls)
        return {"output_messages": (Message("assistant", "x", told),)}

    return messages
