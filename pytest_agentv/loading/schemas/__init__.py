"""JSON Schemas of eval, targets and config files, for editors. Imports pydantic: import this lazily."""
