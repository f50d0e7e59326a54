"""Placeholders that quoting cannot protect are found, and those it protects are left alone."""

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from thorough import tries

from pytest_agentv.providers.cli_template import find_unsafe, quote

PLACEHOLDER = re.compile(r"\{PROMPT\}")
UNCLEAR = "behind shell code whose quoting cannot be told for certain"


@pytest.mark.parametrize(
    "template",
    [
        "echo {PROMPT}",
        "agent --prompt={PROMPT} --x='a b' --y=\"c $D\" {PROMPT}",
        "printf %s {PROMPT} | agent",
        "agent \\\n  {PROMPT}",
        "echo 'it'\"'\"'s' {PROMPT}",
        "curl -d '{\"q\": '{PROMPT}'}' host",
        'x="$(printf %s {PROMPT})"; echo "$x"',
        "x=$(echo $(echo {PROMPT}))",
        "sh -c 'agent \"$1\"' _ {PROMPT}",
        "case {PROMPT} in a*) echo a;; *) echo {PROMPT};; esac",
        "(cd x && agent {PROMPT}) || echo {PROMPT}",
        "echo ${HOME} $((1 + 2)) {PROMPT}",
        "echo a#b {PROMPT}",
        "echo a # it's a comment\nagent {PROMPT}",
        "cat <<EOF\nit's\nEOF\nagent {PROMPT}",
        "cat <<< {PROMPT}",
        "echo \\' {PROMPT}",
        "echo $(x)#y {PROMPT}",
    ],
)
def test_a_word_of_its_own_is_safe(template: str) -> None:
    assert find_unsafe(template, PLACEHOLDER) is None


@pytest.mark.parametrize(
    ("template", "where"),
    [
        ("echo '{PROMPT}'", "inside single quotes"),
        ('echo "{PROMPT}"', "inside double quotes"),
        ("curl -d '{\"q\": {PROMPT}}'", "inside single quotes"),
        ("sh -c 'agent {PROMPT}'", "inside single quotes"),
        ("sh -c \"agent '{PROMPT}'\"", "inside double quotes"),
        ("echo it's {PROMPT}", "inside single quotes"),
        ('echo "a" "b {PROMPT}', "inside double quotes"),
        ('echo "$(echo "{PROMPT}")"', "inside double quotes"),
        ('echo "$(echo x) {PROMPT}"', "inside double quotes"),
        ("echo `printf %s {PROMPT}`", "inside backticks"),
        ('echo "`printf %s {PROMPT}`"', "inside backticks"),
        ("cat <<EOF\n{PROMPT}\nEOF", "inside a here-document"),
        ("cat <<'EOF' | x\n{PROMPT}\nEOF", "inside a here-document"),
        ("cat <<-A <<B\n\tA\n{PROMPT}\nB", "inside a here-document"),
        ("echo x # {PROMPT}", "in a comment"),
        ("echo \\{PROMPT}", "behind a backslash"),
        ('echo "\\{PROMPT}"', "behind a backslash"),
        ("echo ${PROMPT}", "behind a dollar sign"),
        ("echo $(({PROMPT} + 1))", "inside $((…))"),
        ("echo ${x:-{PROMPT}}", UNCLEAR),
        ('echo "${x:-\'}" {PROMPT}', UNCLEAR),
        ("echo $'it\\'s {PROMPT}", UNCLEAR),
        ('echo "$(case x in a) echo " {PROMPT} ";; esac)"', UNCLEAR),
        ("cat <<{PROMPT}\nx", UNCLEAR),
    ],
)
def test_a_place_where_quoting_fails_is_named(template: str, where: str) -> None:
    assert find_unsafe(template, PLACEHOLDER) == ("{PROMPT}", where)


PIECES = (
    *("'", '"', "`", "\\", "$(", ")", "$((", "))", "(", "${", "}", "${x:-a}", "$'", "$", "#", " ", "\n"),
    *("<<E", "<<-'E'", "\nE\n", "<<<", " case x in a", "esac", "echo ", ";", "|", "\\\n", "cat ", "=", "x"),
    *("{PROMPT}", " {PROMPT} ", "printf %s {PROMPT}"),
)
ATTACKS = (
    *("$(touch pwned)", "`touch pwned`", ";touch pwned;", "\ntouch pwned\n", "'; touch pwned; '"),
    *('"; touch pwned; "', "'$(touch pwned)'", "\nE\ntouch pwned\n", "\\'; touch pwned #", "a);touch pwned;;"),
)


@settings(max_examples=tries(25, 60), deadline=None, suppress_health_check=list(HealthCheck))
@example(["printf %s {PROMPT}", " ", '"', "$(", "echo ", "{PROMPT}", ")", '"'], "$(touch pwned)")
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=8), st.sampled_from(ATTACKS))
def test_what_counts_as_safe_runs_nothing_of_the_value(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], attack: str
) -> None:
    template = "".join(pieces)
    if "{PROMPT}" not in template or find_unsafe(template, PLACEHOLDER):
        return
    folder: Path = tmp_path_factory.mktemp("shell")
    command = template.replace("{PROMPT}", quote(attack))

    subprocess.run(
        ["/bin/sh", "-c", command], check=False, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=10
    )

    assert not (folder / "pwned").exists(), template
