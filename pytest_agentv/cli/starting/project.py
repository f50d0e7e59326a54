"""The files of a new project, as `agentv init` writes them."""

from collections.abc import Mapping
from typing import Final

EVAL_FILE: Final = """\
# yaml-language-server: $schema=../.agentv/schemas/eval.schema.json
# An example that runs at once: `pytest evals`, or `agentv eval evals`. Replace it by cases of your own.
description: What the help desk has to know

evalcases:
  # Words that have to be in the answer, words that must not be, and how long it may take.
  - id: opening-hours
    expected_outcome: Names the hours of the shop
    input_messages:
      - role: user
        content: When are you open?
    evaluators:
      - name: facts
        type: heuristic
        hits: ["9:00", "17:00"]
        misses: [I do not know]
      - name: fast
        type: latency
        threshold: 2000

  # An answer in JSON, compared field by field with the expected one.
  - id: order-status
    expected_outcome: Reports the order as data
    input_messages:
      - role: user
        content: Where is order 1001?
    expected_messages:
      - role: assistant
        content: {order: 1001, status: shipped, days: 2}
    evaluators:
      - name: fields
        type: field_accuracy
        fields:
          - {path: order, match: exact}
          - {path: status, match: exact}
          - {path: days, match: numeric_tolerance, tolerance: 1}
"""

TARGETS_FILE: Final = """\
# yaml-language-server: $schema=../.agentv/schemas/targets.schema.json
# What is evaluated. Choose another target with `--agentv-target NAME`, or with `execution: {target: NAME}` in a case.
targets:
  # A Python function, called in the pytest process.
  - name: default
    provider: python
    callable: agent.py:answer

  # A program, and a model. Variables come from the environment or from a file `.env`.
  # - name: program
  #   provider: cli
  #   command_template: python3 my_agent.py {PROMPT}
  #   judge_target: model
  # - name: model
  #   provider: azure
  #   endpoint: ${{ AZURE_OPENAI_ENDPOINT }}
  #   api_key: ${{ AZURE_OPENAI_API_KEY }}
  #   deployment: ${{ AZURE_DEPLOYMENT_NAME }}
"""

AGENT_FILE: Final = '''\
"""Stands in for your agent: replace the body of `answer` by a call of it."""

import json


def answer(prompt: str) -> str:
    if "order" in prompt:
        return json.dumps({"order": 1001, "status": "shipped", "days": 2})
    return "We are open from 9:00 to 17:00."
'''

ENV_EXAMPLE: Final = """\
# Copy this to `.env`, fill it in, and keep `.env` out of version control. Variables that are set already come first.
AZURE_OPENAI_ENDPOINT=
AZURE_OPENAI_API_KEY=
AZURE_DEPLOYMENT_NAME=
"""

GITIGNORE: Final = """\
# What runs leave here.
/cache/
/logs/
/prompts/
/results/
/traces/
"""

INI_SETTINGS: Final = """\
# Each key has a flag of the same name, which comes first: --agentv-threshold, --agentv-workers, ...
agentv_threshold = 0.8
agentv_workers = 4
"""

PYTEST_INI: Final = f"[pytest]\n{INI_SETTINGS}"

PROJECT_FILES: Final[Mapping[str, str]] = {
    "evals/example.eval.yaml": EVAL_FILE,
    "evals/targets.yaml": TARGETS_FILE,
    "evals/agent.py": AGENT_FILE,
    ".env.example": ENV_EXAMPLE,
    ".agentv/.gitignore": GITIGNORE,
}
"""The texts by their path below the project's folder."""
