"""What a user's conftest and tests look like to a type checker: `mypy` checks them with the package."""
