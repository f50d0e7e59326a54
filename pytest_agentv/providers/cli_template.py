"""Command templates: their placeholders, and values that the shell takes literally."""

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated, Final, TypeAlias
from uuid import uuid4

from pydantic import BeforeValidator

from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.model.base import Record
from pytest_agentv.model.kind import filled
from pytest_agentv.providers.base import ProviderRequest
from pytest_agentv.targets.definitions import REFERENCE
from pytest_agentv.targets.fields import FinalFault, optional_text

LONGEST_ARGUMENT: Final = 128 * 1024 - 1
"""In bytes. Linux accepts no longer argument of a program or variable. The final NUL is not counted."""

PROMPT_VARIABLE: Final = "AGENTV_PROMPT"
"""The variable with the prompt, unless the prompt is too long for a variable."""

PLACEHOLDERS: Final = (
    *("PROMPT", "PROMPT_FILE", "PROMPT_JSON", "GUIDELINES", "EVAL_ID", "ATTEMPT"),
    *("FILES", "ATTACHMENTS", "OUTPUT_FILE", "SESSION_ID", "WORKSPACE"),
)
"""The names that a command template may hold in braces."""

KNOWN_PLACEHOLDER: Final = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")
_FILE_PLACEHOLDER: Final = re.compile(r"\{(path|basename)\}")


@dataclass(frozen=True, slots=True)
class CallValues(Record):
    """The values of the placeholders in one call. Source: "Render and execute template"."""

    eval_id: str
    output_file: Path
    prompt: str = ""
    guidelines: str = ""
    attempt: int = 0
    files: tuple[str, ...] = ()
    files_format: str = "{path}"
    session: str = ""
    workspace: str = ""

    @property
    def prompt_file(self) -> Path:
        return self.output_file.with_name("prompt.txt")

    def for_shell(self) -> dict[str, str]:
        """Return the values as words of a command."""
        return self._values(shlex.quote)

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
            "SESSION_ID": self.session,
            "WORKSPACE": self.workspace,
        }
        paths = {"OUTPUT_FILE": str(self.output_file), "PROMPT_FILE": str(self.prompt_file)}
        files = " ".join(_render_file(path, self.files_format, write) for path in dict.fromkeys(self.files))
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
        session=request.session or uuid4().hex,
        output_file=output_file,
        workspace=request.workspace or "",
    )


def render_command(template: str, values: Mapping[str, str]) -> str:
    """Fill a template in one pass, so that placeholders inside of values stay."""
    return KNOWN_PLACEHOLDER.sub(lambda match: values[match[1]], template)


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


def shell_argv(command: str, folder: Path) -> list[str]:
    """Return the program that runs a command. A command that is too long for an argument is put into a script file."""
    if len(command.encode("utf-8", "surrogateescape")) <= LONGEST_ARGUMENT:
        return ["/bin/sh", "-c", command]
    script = folder / "command.sh"
    script.write_text(command, encoding="utf-8", errors="surrogateescape", newline="")
    return ["/bin/sh", str(script)]


def _render_file(path: str, files_format: str, write: Callable[[str], str]) -> str:
    values = {"path": write(path), "basename": write(PurePath(path).name)}
    return _FILE_PLACEHOLDER.sub(lambda match: values[match[1]], files_format)


# The placeholders are checked when the targets file is read.

_PROMPTS: Final = frozenset({"PROMPT", "PROMPT_FILE", "PROMPT_JSON"})
_GUIDELINES: Final = frozenset({"GUIDELINES", "FILES", "ATTACHMENTS"})
_IN_CAPITALS: Final = re.compile(r"(\$?)\{([A-Z_]+)\}")
_WORD: Final = re.compile(r"(?<![${])\{(\w+)\}(?!\})|\{\{ *(\w+) *\}\}")
"""A word in braces that is no variable of the shell."""


def has_prompt_only(text: str) -> bool:
    """Whether a command and its input hold the question, and neither the texts nor the paths of guidelines."""
    names = set(KNOWN_PLACEHOLDER.findall(text))
    return (PROMPT_VARIABLE in text or bool(names & _PROMPTS)) and not names & _GUIDELINES


def _command(value: object) -> str:
    text = _input(value)
    _refuse_quotes(text, KNOWN_PLACEHOLDER)
    return text


def _input(value: object) -> str:
    text = filled(value)
    plain = REFERENCE.sub("", text)
    for dollar, name in _IN_CAPITALS.findall(plain):
        if dollar and name in PLACEHOLDERS:
            raise FinalFault(f"write {{{name}}} without the $: it is a placeholder, not a variable of the shell")
        if not dollar and name not in PLACEHOLDERS:
            raise _unknown(name, PLACEHOLDERS)
    words = list(_WORD.finditer(plain))
    names = {word[1] for word in words}
    if PROMPT_VARIABLE in text or names & _PROMPTS:
        names.add("PROMPT")
    for match in words:  # if the command gets the value otherwise, the braces may be a program's
        name = match[1] or match[2]
        if (meant := name.upper()) in PLACEHOLDERS and meant not in names:
            raise FinalFault(
                f"{match[0]} is no placeholder, and would be passed on as it is; write {{{meant}}}, or "
                f"{{ {name} }} for braces of the command"
            )
    return text


def _unknown(name: str, known: Sequence[str]) -> FinalFault:
    valid = [f"{{{placeholder}}}" for placeholder in known]
    near = did_you_mean(f"{{{name}}}", valid)
    hint = f"{near} " if near else ""
    return FinalFault(f"unknown placeholder {{{name}}}; {hint}valid are {', '.join(valid)}")


def _files_format(value: object) -> str:
    text = optional_text(value)
    for match in _WORD.finditer(REFERENCE.sub("", text)):
        if not _FILE_PLACEHOLDER.fullmatch(match[0]):
            raise _unknown(match[1] or match[2], ("path", "basename"))
    _refuse_quotes(f"{text} {text}", _FILE_PLACEHOLDER)  # an open quote includes the next file
    return text


def _refuse_quotes(text: str, placeholder: re.Pattern[str]) -> None:
    name = find_unsafe(REFERENCE.sub("x", text).replace("\0", ""), placeholder)
    if name:
        other = "" if name != "{PROMPT}" else "; or use {PROMPT_JSON}, {PROMPT_FILE}, the key stdin or $AGENTV_PROMPT"
        raise FinalFault(
            f"{name} stands within quotes, backticks, a comment or a here-document, where its text could run as a "
            f"command; write it as a word of its own, without quotes: it is quoted for the shell{other}"
        )


CommandTemplate: TypeAlias = Annotated[str, BeforeValidator(_command)]
InputTemplate: TypeAlias = Annotated[str, BeforeValidator(_input)]
FilesFormat: TypeAlias = Annotated[str, BeforeValidator(_files_format)]

_INNER: Final = r"""\$\((?:[^()"'`\\#<$]|\$(?![\0(]))*\)"""
"""A command substitution without quotes: a command of its own, also inside of double quotes."""
_QUOTED: Final = re.compile(
    rf"""\\. | \$\0                                     # the character behind a backslash, or a dollar sign
    | '[^']*'
    | "(?:\\. | {_INNER} | \$\{{[^{{}}()'"`\\]*\}} | \$(?![({{]) | [^"`\\$])*"
    | (?<![^\s;&|()])\#[^\n]*                         # a comment
    | \$\(\([^()'"`]*\)\) | \$\{{[^{{}}()'"`\\]*\}}
    | (?: ["'`] | \$' | \$\{{ | \$\(\( | (?<!<)<<(?!<) ).*  # what ends nobody knows where: the rest
    """,
    re.DOTALL | re.VERBOSE,
)
"""The parts of a command where the shell expects no word. A placeholder is written there as NUL."""


def find_unsafe(template: str, placeholder: re.Pattern[str]) -> str | None:
    """Return the first placeholder within quotes, a comment or a here-document; None if there is none.

    Its value is quoted for the shell. Inside quotes of the template's author, its quotes would end these, and its text
    would run as a command.
    """
    names = [match[0] for match in placeholder.finditer(template)]
    marked = placeholder.sub("\0", template)
    for part in _QUOTED.finditer(marked):
        text = re.sub(_INNER, lambda inner: " " * len(inner[0]), part[0]) if part[0].endswith('"') else part[0]
        if "\0" in text:
            return names[marked.count("\0", 0, part.start() + text.index("\0"))]
    return None
