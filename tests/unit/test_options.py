"""The table of run options, and how command line, ini file and defaults become the options of a run."""

import contextlib
import re
from typing import Any

import execnet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.model.options import (
    RUN_OPTIONS,
    RunOptions,
    parse_bool,
    parse_milliseconds,
    parse_output_format,
    parse_retries,
    parse_run_workers,
    parse_seconds,
    parse_threshold,
)
from pytest_agentv.session.options import run_options


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_output_format, "jsonl", "jsonl"),
        (parse_output_format, " YAML ", "yaml"),
        (parse_threshold, "0", 0),
        (parse_threshold, "1", 1),
        (parse_threshold, ".75", 0.75),
        (parse_run_workers, "1", 1),
        (parse_run_workers, "50", 50),
        (parse_seconds, "0", 0),
        (parse_seconds, "1.5", 1.5),
        (parse_milliseconds, "250", 250),
        (parse_retries, "0", 0),
        (parse_retries, "7", 7),
        (parse_bool, "Yes", True),
        (parse_bool, " on ", True),
        (parse_bool, "0", False),
        (parse_bool, "False", False),
    ],
)
def test_what_makes_sense_is_accepted(parse, text, value):
    assert parse(text) == value


@pytest.mark.parametrize(
    "option", [each for each in RUN_OPTIONS if type(each.default) in (int, float)], ids=lambda option: option.name
)
def test_a_number_that_the_help_calls_the_default_is_the_default(option):
    (said,) = re.findall(r"\(default: ([\d.]+)\)", option.help)
    assert float(said) == option.default == getattr(RunOptions(), option.dest)


@pytest.mark.scenario("Invalid format specification")
@pytest.mark.scenario("Workers flag with invalid range")
@pytest.mark.scenario("Workers flag validation")
@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_output_format, "csv", "unknown output format 'csv': expected one of jsonl, yaml"),
        (parse_threshold, "high", "'high' is not a number: expected a number from 0 to 1"),
        (parse_threshold, "-0.1", "threshold -0.1 is out of range: expected a number from 0 to 1"),
        (parse_threshold, "1.01", "threshold 1.01 is out of range: expected a number from 0 to 1"),
        (parse_threshold, "nan", "nan is not a finite number: expected a number from 0 to 1"),
        (parse_run_workers, "four", "'four' is not a number of workers: expected 1 to 50"),
        (parse_run_workers, "2.5", "'2.5' is not a number of workers: expected 1 to 50"),
        (parse_run_workers, "0", "0 workers are out of range: expected 1 to 50 (the minimum is 1)"),
        (parse_run_workers, "3201", "3201 workers are out of range: expected 1 to 50 (the minimum is 1)"),
        (parse_seconds, "-1", "-1 is out of range: expected 0 or more seconds (0 switches the timeout off)"),
        (parse_seconds, "1m", "'1m' is not a number: expected 0 or more seconds (0 switches the timeout off)"),
        (parse_seconds, "inf", "inf is not a finite number: expected 0 or more seconds (0 switches the timeout off)"),
        (parse_milliseconds, "-5", "-5 is out of range: expected 0 or more milliseconds"),
        (parse_retries, "-1", "-1 retries are out of range: expected 0 or more"),
        (parse_retries, "1.5", "'1.5' is not a number of retries: expected 0 or more"),
        (parse_bool, "perhaps", "'perhaps' is neither true nor false"),
    ],
)
def test_what_makes_no_sense_is_refused_and_the_message_says_what_does(parse, text, message):
    with pytest.raises(ValueError) as error:
        parse(text)
    assert str(error.value) == message


@given(st.text())
def test_a_text_is_a_value_or_a_value_error_and_nothing_else(text):
    for parse in (parse_threshold, parse_run_workers, parse_seconds, parse_retries, parse_bool, parse_output_format):
        with contextlib.suppress(ValueError):
            parse(text)


@pytest.fixture
def options_of(pytester: pytest.Pytester) -> Any:
    """Return the run options of a command line and the lines of an ini file."""

    def parse(*flags: str, ini: str = "") -> RunOptions:
        pytester.makeini(f"[pytest]\n{ini}\n")
        return run_options(pytester.parseconfig(*flags))

    return parse


GIVEN = {
    "run": "asked",
    "shard": "1/2",
    "output-format": "yaml",
    "stop": "never",
    "executor": "dask://here:1",
    "update-baseline": "force",
    "gate": "run",
    "unknown-keys": "warn",
}
"""Values of the options that take neither a number nor any text."""


@pytest.mark.parametrize("option", RUN_OPTIONS, ids=lambda option: option.name)
def test_the_value_of_a_flag_can_be_sent_to_another_process(option, options_of, pytester):
    """`--looponfail` of pytest-xdist sends those of all flags, and was a traceback for the plain tests of a project."""
    flag = f"--agentv-{option.name}"
    arguments = (flag,) if option.is_flag else (f"{flag}={GIVEN.get(option.name, '1')}",)
    given = {key: value for key, value in vars(pytester.parseconfig(*arguments).option).items() if "agentv" in key}
    sent = execnet.loads(execnet.dumps(given))
    assert sent == given
    assert sent[f"agentv_{option.dest}"] is not None
    assert options_of(*arguments) != RunOptions()
