"""From files to checked records: eval suites, targets, environment, guideline patterns."""
