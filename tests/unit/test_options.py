"""The values of flags can be sent to another process: `--looponfail` of pytest-xdist sends those of all flags."""

import execnet

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


def test_the_value_of_each_flag_can_be_sent_to_another_process(pytestconfig, pytester):
    """It was a traceback for the plain tests of a project."""
    options = [option for group in pytestconfig._parser._groups for option in group.options]
    flags = {name: option.attrs() for option in options for name in option.names() if name.startswith("--agentv-")}
    assert len(flags) > 30
    for flag, settings in flags.items():
        is_bare = settings.get("nargs") in ("?", 0)
        word = flag if is_bare else f"{flag}={GIVEN.get(flag.removeprefix('--agentv-'), '1')}"
        given = {key: value for key, value in vars(pytester.parseconfig(word).option).items() if "agentv" in key}
        assert execnet.loads(execnet.dumps(given)) == given
        assert given[settings["dest"]] not in (None, False)
