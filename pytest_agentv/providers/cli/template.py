"""Fills command templates with values that the shell takes literally."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePath
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.providers.base import ProviderRequest

LONGEST_ARGUMENT: Final = 128 * 1024 - 1
"""In bytes. Linux accepts no longer argument of a program or variable. The final NUL is not counted."""

PROMPT_VARIABLE: Final = "AGENTV_PROMPT"
"""The variable with the prompt, unless the prompt is too long for a variable."""

_PLACEHOLDER: Final = re.compile(r"\{([A-Z_]+)\}")
_FILE_PLACEHOLDER: Final = re.compile(r"\{(path|basename)\}")


@record
class CallValues(Record):
    """The values of the placeholders in one call. Source: "Render and execute template"."""

    eval_id: str
    output_file: Path
    prompt: str = ""
    guidelines: str = ""
    attempt: int = 0
    files: tuple[str, ...] = ()
    files_format: str = "{path}"

    @property
    def prompt_file(self) -> Path:
        return self.output_file.with_name("prompt.txt")

    def for_shell(self) -> dict[str, str]:
        """Return the values as words of a command."""
        return self._values(quote)

    def as_texts(self) -> dict[str, str]:
        """Return the values unquoted, for standard input."""
        return self._values(lambda value: value)

    def _values(self, write: Callable[[str], str]) -> dict[str, str]:
        texts = {
            "PROMPT": self.prompt,
            "PROMPT_JSON": json.dumps(self.prompt, ensure_ascii=False),
            "GUIDELINES": self.guidelines,
            "EVAL_ID": self.eval_id,
            "ATTEMPT": str(self.attempt),
        }
        paths = {"OUTPUT_FILE": str(self.output_file), "PROMPT_FILE": str(self.prompt_file)}
        files = _render_files(self.files, self.files_format, write)
        return (
            {name: write(clean(text)) for name, text in texts.items()}
            | {name: write(path) for name, path in paths.items()}
            | {"FILES": files, "ATTACHMENTS": files}
        )


def request_values(request: ProviderRequest, files_format: str, output_file: Path) -> CallValues:
    """Return the placeholders' values for one request."""
    question = request.prompt.question
    return CallValues(
        prompt=f"{request.system_prompt}\n\n{question}" if request.system_prompt else question,
        guidelines=request.prompt.guidelines,
        eval_id=request.eval_id,
        attempt=request.attempt,
        files=request.file_paths,
        files_format=files_format,
        output_file=output_file,
    )


def render_command(template: str, values: Mapping[str, str]) -> str:
    """Fill a template in one pass, so that placeholders inside of values stay. Unknown placeholders stay, too."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), template)


def with_prompt(environment: Mapping[str, str], prompt: str) -> dict[str, str]:
    """Return the variables of a command, with `AGENTV_PROMPT` if there is a prompt that fits."""
    variables = {name: value for name, value in environment.items() if name != PROMPT_VARIABLE}
    value = clean(prompt)
    if value and len(f"{PROMPT_VARIABLE}={value}".encode()) <= LONGEST_ARGUMENT:
        variables[PROMPT_VARIABLE] = value
    return variables


def clean(text: str) -> str:
    """Return a text that fits into an argument: without NUL, and with `?` for lone surrogates."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def quote(text: str) -> str:
    """Quote a text for a POSIX shell.

    Unlike `shlex.quote`, it always quotes, so that the value cannot change how the template's words are joined.
    """
    return "'" + text.replace("'", "'\"'\"'") + "'"


def shell_argv(command: str, folder: Path) -> list[str]:
    """Return the program that runs a command. A command that is too long for an argument is put into a script file."""
    if len(command.encode("utf-8", "surrogateescape")) <= LONGEST_ARGUMENT:
        return ["/bin/sh", "-c", command]
    script = folder / "command.sh"
    script.write_text(command, encoding="utf-8", errors="surrogateescape", newline="")
    return ["/bin/sh", str(script)]


def _render_files(paths: Iterable[str], files_format: str, write: Callable[[str], str]) -> str:
    """Return each path once, in the files' format, joined by blanks; empty without paths."""
    return " ".join(_render_file(path, files_format, write) for path in dict.fromkeys(paths))


def _render_file(path: str, files_format: str, write: Callable[[str], str]) -> str:
    values = {"path": write(path), "basename": write(PurePath(path).name)}
    return _FILE_PLACEHOLDER.sub(lambda match: values[match[1]], files_format)
