"""pytest-agentv: LLM and agent evaluations, written as YAML, run as ordinary pytest items.

Nothing is imported here: every pytest run of a project that has the plugin installed, and every judge script that
uses `pytest_agentv.sdk`, pays for what this file loads.

PYTEST_DONT_REWRITE: `agentv eval` has imported this file when pytest starts, which would be a warning otherwise.
"""

__version__ = "0.1.0"
