"""A description and an example for each key of the schemas whose class does not give them: what editors show."""

import re
from collections.abc import Mapping
from typing import Any, Final

from pytest_agentv.models.base import Json

_LIST: Final = "the cases of the file"
_EVALUATORS: Final = "what judges the answer: checks, and sentences that a model checks"
_CHECKS: Final = [{"contains": "30 days"}, "Names the refund period"]
_CASE: Final = {"id": "refund", "input": "May I return it?", "expected_outcome": "Names the refund period"}
_INPUT: Final = "what the target is asked: a text, or messages"
_IDEAL: Final = "an ideal answer: a text, data, or messages"
_GOAL: Final = "what a good answer achieves"
_DEPLOYMENT: Final = "gpt-5-mini"

DESCRIPTIONS: Final[Mapping[str, str]] = {
    "$schema": "the schema of the file",
    "name": "what it is called",
    "version": "the version of the file",
    "author": "who wrote the file",
    "license": "under which terms the file may be used",
    "dataset": "the name of the group of cases; default: the name of the file",
    "description": "what it is about; nobody reads it but people",
    "metadata": "whatever else is to be known; nobody reads it but people",
    "note": "a remark; nobody reads it but people",
    "tags": "marks of pytest, for `-m`",
    "marks": "marks of pytest, for `-m`",
    "fixtures": "fixtures of pytest that each case uses",
    "skip": "why the case is skipped, or true",
    "xfail": "why the case is expected to fail, or true",
    "execution": "how the cases are run: target, threshold and evaluators",
    "target": "the name of the target that is asked",
    "targets": "what can be asked, and who judges",
    "threshold": "the score from which a case passes, 0 to 1",
    **dict.fromkeys(("evalcases", "eval_cases", "cases", "tests"), _LIST),
    **dict.fromkeys(("evaluators", "assertions", "assert"), _EVALUATORS),
    **dict.fromkeys(("evaluator", "grader"), "the older way to choose the default judge: `llm_judge`"),
    "id": "what the case is called; unique within its file",
    "conversation_id": "a name for cases that belong together",
    "rubrics": "statements that a model checks one by one; a case fails without a required one",
    "question": "the question, for people",
    "reference_answer": "an ideal answer, for people",
    **dict.fromkeys(("expected_outcome", "outcome", "criteria"), _GOAL),
    **dict.fromkeys(("input_messages", "input"), _INPUT),
    **dict.fromkeys(("expected_messages", "expected_output"), _IDEAL),
    "case": "what each case of the file, or each row of a table, becomes; columns are variables",
    "defaults": "keys of a case, for all cases that do not have them",
    "include": "files whose keys this file takes over, where it does not have them",
    "input_files": "files that go with the input of each case",
    "vars": "variables, which `{{ name }}` shows",
    "from": "a table of data (csv, tsv, json, jsonl, yaml, parquet), or `file.py:function`",
    "sample": "how many rows are chosen",
    "seed": "with the same seed, the same rows are chosen",
    "file": "a file with the prompt",
    "repeat": "how often each case runs",
    "min_pass_rate": "the share of the repeats that have to pass, 0 to 1",
    "group": "a name for cases that are alike: statistics do not take them for independent",
    "required": "whether the run fails if the case does, whatever the share that has to pass",
    "matrix": "targets, variables and prompts, each combination of which is a case",
    "role": "who says it",
    "content": "what is said: a text, or parts",
    "tool_calls": "the tools that are called",
    "type": "the kind",
    "value": "a text, or the path of a file",
    "provider": "the kind of target",
    "guideline_patterns": "globs of the files that count as guidelines",
}

EXAMPLES: Final[Mapping[str, Json]] = {
    "$schema": "agentv-config-v2",
    "name": "support",
    "version": "1.0",
    "author": "Support team",
    "license": "MIT",
    "dataset": "support",
    "description": "Questions about refunds",
    "metadata": {"owner": "support"},
    "note": "Asked often in May",
    "tags": ["slow"],
    "marks": ["slow"],
    "fixtures": ["database"],
    "skip": "the shop is closed",
    "xfail": "known to be wrong",
    "execution": {"target": "default"},
    "target": "default",
    "targets": [{"name": "default", "provider": "mock", "response": "Yes."}],
    "threshold": 0.8,
    **{key: [_CASE] for key in ("evalcases", "eval_cases", "cases", "tests")},
    **dict.fromkeys(("evaluators", "assertions", "assert"), _CHECKS),
    **dict.fromkeys(("evaluator", "grader"), "llm_judge"),
    "id": "refund-period",
    "conversation_id": "refunds",
    "rubrics": ["Names the refund period"],
    "question": "May I return it?",
    "reference_answer": "Yes, within 30 days.",
    **dict.fromkeys(("expected_outcome", "outcome", "criteria"), "Names the refund period"),
    **dict.fromkeys(("input_messages", "input"), "May I return it?"),
    **dict.fromkeys(("expected_messages", "expected_output"), "Yes, within 30 days."),
    "case": {"id": "q-{{ number }}", "input": "{{ question }}", "expected_outcome": "{{ answer }}"},
    "defaults": {"threshold": 0.8},
    "include": "common.yaml",
    "input_files": ["policies/refund.md"],
    "vars": {"product": "tent"},
    "from": "questions.csv",
    "sample": 50,
    "seed": 1,
    "file": "prompts/answer.md",
    "messages": True,
    "repeat": 5,
    "min_pass_rate": 0.8,
    "group": "refunds",
    "matrix": {"target": ["gpt", "claude"], "tone": ["formal", "friendly"]},
    "role": "user",
    "content": "May I return it?",
    "tool_calls": [{"tool": "search", "input": {"query": "refund"}}],
    "type": "contains",
    "value": "policies/refund.md",
    "aggregation": "all_or_nothing",
    "aggregator": {"type": "weighted_average"},
    "api_key": "${{ OPENAI_API_KEY }}",
    "api_version": "2024-10-01-preview",
    "args": ["--verbose"],
    "arguments": {"temperature": 0.2},
    **dict.fromkeys(("attachments_format", "files_format"), "--file {path}"),
    **dict.fromkeys(("base_url", "endpoint", "resource", "resource_name"), "https://my-resource.openai.azure.com"),
    **dict.fromkeys(("binary", "command", "executable"), "codex"),
    "budget": 0.05,
    "callable": "agent.py:answer",
    **dict.fromkeys(("cli_verbose", "verbose"), True),
    "client": "litellm",
    "command_template": "python agent.py {PROMPT}",
    "cwd": "agents",
    **dict.fromkeys(("deployment", "deployment_name", "model", "variant"), _DEPLOYMENT),
    "delay_ms": 100,
    "delay_min_ms": 100,
    "delay_max_ms": 500,
    "dry_run": True,
    "env": {"LOG_LEVEL": "debug"},
    "expected": [{"tool": "search"}],
    "fields": [{"path": "items[0].price", "match": "exact"}],
    "finish_reason": "stop",
    "formats": ["DD/MM/YYYY"],
    "healthcheck": {"type": "http", "url": "http://localhost:8000/health"},
    "hits": ["refund", "30 days"],
    "include_trace": True,
    "judge_target": "judge",
    **dict.fromkeys(("keep_output_files", "keep_temp_files"), True),
    **dict.fromkeys(("llm_provider", "pi_provider"), "anthropic"),
    **dict.fromkeys(("log_dir", "log_directory"), "logs"),
    **dict.fromkeys(("log_format", "log_output_format"), "json"),
    "match": "exact",
    "max_calls": 10,
    "max_duration_ms": 2000,
    "max_input": 2000,
    "max_output": 500,
    "max_total": 3000,
    **dict.fromkeys(("max_output_tokens", "max_tokens"), 1000),
    "max_retries": 3,
    "memory_mb": 512,
    "misses": ["sorry"],
    "output": {"price": 120},
    "output_messages": [{"role": "assistant", "content": "Yes."}],
    "path": "items[0].price",
    "pi_model": "claude-sonnet-4-5",
    **dict.fromkeys(("pi_thinking", "thinking"), "low"),
    **dict.fromkeys(("pi_tools", "tools"), "read,grep"),
    "prompt": "prompts/judge.md",
    "prompt_path": "prompts/judge.md",
    "provider": "openai",
    "provider_batching": True,
    "relative": True,
    "required": False,
    "reuse": True,
    "response": "Yes, within 30 days.",
    "retry_backoff_factor": 2,
    "retry_initial_delay_ms": 1000,
    "retry_max_delay_ms": 60000,
    "retry_status_codes": [429, 503],
    "script": ["python", "judge.py"],
    "stdin": "{PROMPT}",
    "subagent_root": "~/.subagent/vscode-agents",
    "system_prompt": "Answer in one sentence.",
    "temperature": 0,
    "thinking_budget": 2000,
    "timeout_seconds": 120,
    "tolerance": 0.01,
    "tool": "search",
    "trace": [{"type": "tool_call", "name": "search"}],
    "url": "http://localhost:8000/health",
    "vscode_cmd": "code",
    "wait": True,
    "weight": 2,
    "weights": {"price": 2},
    "workers": 4,
    "workspace_template": "agent.code-workspace",
    "guideline_patterns": ["**/*.instructions.md"],
}


def described(schema: Json) -> Json:
    """Return a schema with a description and an example for each property. Conditions stay as they are."""
    if isinstance(schema, list):
        return [described(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: item if key in ("if", "not", "examples", "enum") else described(item) for key, item in schema.items()}
    properties = found.get("properties")
    if isinstance(properties, dict):
        found["properties"] = {key: _with_help(key, value) for key, value in properties.items()}
    return found


def _with_help(key: str, schema: Any) -> Any:
    name = re.sub("[A-Z]+", lambda upper: f"_{upper[0].lower()}", key)
    about: dict[str, Json] = {}
    if "description" not in schema and name in DESCRIPTIONS:
        about["description"] = DESCRIPTIONS[name]
    if "examples" not in schema and name in EXAMPLES:
        about["examples"] = [EXAMPLES[name]]
    return {**about, **schema}
