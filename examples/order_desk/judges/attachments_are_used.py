"""A judge written with the SDK: every line of an attached delivery note must show in the tool calls.

The eval file names it by its path alone, so that the Python that runs pytest runs it too.
"""

import csv
from pathlib import Path

from pytest_agentv.sdk import CodeJudgeInput, Result, code_judge


@code_judge
def judge(case: CodeJudgeInput) -> Result:
    notes = [Path(file).read_text(encoding="utf-8").splitlines() for file in case.input_files]
    skus = [line["sku"] for note in notes for line in csv.DictReader(note)]
    calls = [call for message in case.output_messages or () for call in message.tool_calls or ()]
    asked = str([call.input for call in calls])
    found = [sku for sku in skus if sku in asked]
    return Result(
        score=len(found) / len(skus),
        hits=[f"{sku} was looked up" for sku in found],
        misses=[f"{sku} was not looked up" for sku in skus if sku not in asked],
        reasoning=f"{len(found)} of {len(skus)} lines of the attachment were looked up",
        details={"skus": skus},
    )
