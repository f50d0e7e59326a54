"""`tool-called`: a tool was called."""

from typing import Annotated

from pydantic import Field

from pytest_agentv.evaluators.base import Context, Evaluator, or_sync
from pytest_agentv.evaluators.comparing.expected_calls import Arguments, call_fits
from pytest_agentv.evaluators.comparing.reported_calls import (
    NAMELESS,
    all_calls,
    call_counts,
    listed_calls,
    no_trace,
    silent_calls,
    with_silent_calls,
    with_silent_count,
)
from pytest_agentv.evaluators.kinds.text.check import verdict
from pytest_agentv.models.base import ABSENT, Json, JsonObject
from pytest_agentv.models.kind import Text, spelled
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import counted


class ToolCalled(Evaluator):
    """A tool was called, with some arguments, or some number of times."""

    kind = "tool-called"
    is_graded = False
    reads_answer = False
    examples = (
        {
            "answer": "The tent costs 120 euros.",
            "assert": [
                {"tool-called": "search"},
                {"tool-called": "search", "args": {"query": {"regex": "^tent"}}, "times": 1},
                {"not-tool-called": "delete"},
            ],
        },
    )

    value: Text = spelled("value", "tool", description="the name of the tool", examples=["search"])
    args: Arguments = Field(
        default=ABSENT,
        description="arguments of the calls that count: as in `tool_trajectory`, with `{regex: …}` and `{any: true}`",
        examples=[{"query": "tent"}],
    )
    times: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="how often it was called; default: at least once", examples=[1]
    )

    @classmethod
    def keys_of(cls, value: Json) -> JsonObject:
        """In the short form, `name` is the tool's name: `{tool-called: {name: search, args: …}}`."""
        keys = super().keys_of(value)
        return {"value" if key == "name" else key: item for key, item in keys.items()}

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        calls = all_calls(context)
        counts = call_counts(context, calls)
        if counts is None or (self.args is not ABSENT and listed_calls(context) is None):
            return no_trace(context)
        same = [call for call in calls or () if call.tool in (self.value, *NAMELESS)]
        fitting = [call for call in same if call.tool == self.value and call_fits(self.args, call)]
        count = counts.get(self.value, 0) if self.args is ABSENT else len(fitting)
        wanted = "at least once" if self.times is None else f"expected: {self.times}"
        times = counted(count, "time")
        what = f"{self.value} called {times}{'' if self.args is ABSENT else ' with these arguments'} ({wanted})"
        found = verdict(count > 0 if self.times is None else count == self.times, what, what)
        if self.times is None:
            return with_silent_calls(found, [self.args], same)
        return with_silent_count(found, count, self.times, silent_calls([self.args], same))
