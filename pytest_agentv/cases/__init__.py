"""From eval files to checked cases: suites, entries, tables, variables, messages, evaluators, prompts."""
