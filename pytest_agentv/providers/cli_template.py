"""Command templates: their placeholders, and values that the shell takes literally."""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated, Final, TypeAlias

from pydantic import BeforeValidator

from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.model.base import Json, Record, is_number
from pytest_agentv.model.text import compact_json, format_number
from pytest_agentv.providers.base import ProviderRequest
from pytest_agentv.targets.definitions import REFERENCE
from pytest_agentv.targets.fields import FinalFault, filled_text, optional_text

LONGEST_ARGUMENT: Final = 128 * 1024 - 1
"""In bytes. Linux accepts no longer argument of a program or variable. The final NUL is not counted."""

PROMPT_VARIABLE: Final = "AGENTV_PROMPT"
"""The variable with the prompt, unless the prompt is too long for a variable."""

_PLACEHOLDER: Final = re.compile(r"\{([A-Z_]+)\}")
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


def _render_file(path: str, files_format: str, write: Callable[[str], str]) -> str:
    values = {"path": write(path), "basename": write(PurePath(path).name)}
    return _FILE_PLACEHOLDER.sub(lambda match: values[match[1]], files_format)


# The placeholders are checked when the targets file is read.

PLACEHOLDERS: Final = (
    *("PROMPT", "PROMPT_FILE", "PROMPT_JSON", "GUIDELINES", "EVAL_ID", "ATTEMPT"),
    *("FILES", "ATTACHMENTS", "OUTPUT_FILE"),
)
"""The names that a command template may hold in braces."""

_PROMPTS: Final = ("PROMPT", "PROMPT_FILE", "PROMPT_JSON")
_GUIDELINES: Final = ("GUIDELINES", "FILES", "ATTACHMENTS")
_ANY_PLACEHOLDER: Final = re.compile(r"(\$?)\{([A-Z_]+)\}")
_ANY_WORD: Final = re.compile(r"(?<![${])\{(\w+)\}(?!\})")
"""A word in single braces that is no variable of the shell."""
_TEMPLATE: Final = re.compile(r"(\{\{ *(\w+) *\}\})")
KNOWN_PLACEHOLDER: Final = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")
_FILE_PLACEHOLDERS: Final = ("path", "basename")
_ANY_FILE_PLACEHOLDER: Final = re.compile(r"\{(?:" + "|".join(_FILE_PLACEHOLDERS) + r")\}")


def has_prompt_only(text: str) -> bool:
    """Whether a command and its input hold the question, and neither the texts nor the paths of guidelines."""
    names = {name for _, name in _ANY_PLACEHOLDER.findall(text)}
    return (PROMPT_VARIABLE in text or not names.isdisjoint(_PROMPTS)) and names.isdisjoint(_GUIDELINES)


def _command(value: object) -> str:
    text = _input(value)
    _refuse_quotes(text, KNOWN_PLACEHOLDER)
    return text


def _input(value: object) -> str:
    text = filled_text(value)
    for dollar, name in _ANY_PLACEHOLDER.findall(REFERENCE.sub("", text)):
        if dollar and name in PLACEHOLDERS:
            raise FinalFault(f"write {{{name}}} without the $: it is a placeholder, not a variable of the shell")
        if not dollar and name not in PLACEHOLDERS:
            raise _unknown(name, PLACEHOLDERS)
    _refuse_other_cases(text)
    return text


def _refuse_other_cases(text: str) -> None:
    """Refuse `{prompt}` and `{{ prompt }}`, unless the command gets it otherwise: then they may be a program's."""
    words = set(_ANY_WORD.findall(REFERENCE.sub("", text)))
    if PROMPT_VARIABLE in text or not words.isdisjoint(_PROMPTS):
        words.add("PROMPT")
    for name in sorted(words - {*PLACEHOLDERS}):
        meant = name.upper()
        if meant in PLACEHOLDERS and meant not in words:
            raise FinalFault(
                f"{{{name}}} is no placeholder, and would be passed on as it is; write {{{meant}}}, or "
                f"{{ {name} }} for braces of the command"
            )
    for found, name in _TEMPLATE.findall(REFERENCE.sub("", text)):
        if (meant := name.upper()) in PLACEHOLDERS and meant not in words:
            raise FinalFault(f"{found} is filled in for services, not in commands; write {{{meant}}}")


def _unknown(name: str, known: Sequence[str]) -> FinalFault:
    valid = [f"{{{placeholder}}}" for placeholder in known]
    near = did_you_mean(f"{{{name}}}", valid)
    hint = f"{near} " if near else ""
    return FinalFault(f"unknown placeholder {{{name}}}; {hint}valid are {', '.join(valid)}")


def _files_format(value: object) -> str:
    text = optional_text(value)
    for name in _ANY_WORD.findall(REFERENCE.sub("", text)):
        if name not in _FILE_PLACEHOLDERS:
            raise _unknown(name, _FILE_PLACEHOLDERS)
    _refuse_quotes(f"{text} {text}", _ANY_FILE_PLACEHOLDER)  # an open quote includes the next file
    return text


def _refuse_quotes(text: str, placeholder: re.Pattern[str]) -> None:
    found = find_unsafe(REFERENCE.sub("x", text), placeholder)
    if found:
        name, where = found
        other = "" if name != "{PROMPT}" else "; or use {PROMPT_JSON}, {PROMPT_FILE}, the key stdin or $AGENTV_PROMPT"
        raise FinalFault(
            f"{name} stands {where}, where its text could run as a command; write it as a word of its own, without "
            f"quotes: it is quoted for the shell{other}"
        )


CommandTemplate: TypeAlias = Annotated[str, BeforeValidator(_command)]
InputTemplate: TypeAlias = Annotated[str, BeforeValidator(_input)]
FilesFormat: TypeAlias = Annotated[str, BeforeValidator(_files_format)]

_WORD_ENDS: Final = " \t\n;&|()<>"
_SIMPLE_EXPANSION: Final = re.compile(r"""\$\{[^'"\\`{}()]*\}""")
_HEREDOC: Final = re.compile(r"""<<(-?)[ \t]*((?:[^\s;&|()<>'"\\]|\\.|'[^'\n]*'|"[^"\n]*")+)""")
_CASE: Final = re.compile(r"case\b")


def find_unsafe(template: str, placeholder: re.Pattern[str]) -> tuple[str, str] | None:
    """Return the first unprotected placeholder and its place; None if all are safe.

    A placeholder's value is put into single quotes, which protect the shell only where it expects a plain word. Inside
    quotes of the template's author, they would end these, and the value's text would run as a command.

    Reads the template like `/bin/sh`. If in doubt, a placeholder counts as unsafe.
    """
    return _Scanner(template, placeholder).scan()


class _Found(Exception):
    def __init__(self, found: str, where: str) -> None:
        super().__init__(found, where)
        self.result = (found, where)


class _Scanner:
    """Scans a template and tracks the shell's context."""

    def __init__(self, text: str, placeholder: re.Pattern[str]) -> None:
        self._text = text
        self._placeholder = placeholder
        self._at = 0
        self._open: list[str] = []
        """Open constructs, `"`, `(`, `$(` or `$((`, the innermost last."""
        self._is_unclear = False
        self._starts_word = True
        self._heredocs: list[tuple[str, bool]] = []
        """The end words of here-documents that begin on the next line, and whether leading tabs are dropped."""

    def scan(self) -> tuple[str, str] | None:
        try:
            while self._at < len(self._text):
                if match := self._placeholder.match(self._text, self._at):
                    self._check(match[0])
                    self._go(match.end())
                elif self._context == '"':
                    self._step_in_double_quotes()
                else:
                    self._step_in_command()
        except _Found as found:
            return found.result
        return None

    @property
    def _context(self) -> str:
        return self._open[-1] if self._open else ""

    def _check(self, found: str) -> None:
        if self._is_unclear:
            raise _Found(found, "behind shell code whose quoting cannot be told for certain")
        if self._context == '"':
            raise _Found(found, "inside double quotes")
        if "$((" in self._open:
            raise _Found(found, "inside $((…))")

    def _step_in_double_quotes(self) -> None:
        character = self._text[self._at]
        if character == '"':
            self._open.pop()
            self._go(self._at + 1)
        elif character == "\\":
            self._skip_escape()
        elif not self._step_into_expansion(character):
            self._go(self._at + 1)

    def _step_in_command(self) -> None:
        character, at = self._text[self._at], self._at
        if character == "\\":
            self._skip_escape()
        elif character == "'":
            self._skip_quoted(at + 1, self._text.find("'", at + 1), "inside single quotes")
        elif character == '"':
            self._open.append('"')
            self._go(at + 1)
        elif character == "#" and self._starts_word:
            self._skip_quoted(at, self._text.find("\n", at), "in a comment", keeps_end=True)
        elif character == "\n" and self._heredocs:
            self._skip_heredocs()
        elif self._text.startswith("<<", at) and not self._text.startswith("<<<", at):
            self._begin_heredoc()
        elif self._text.startswith("<<<", at):
            self._go(at + 3, starts_word=True)
        elif character == "(":
            self._open.append("(")
            self._go(at + 1, starts_word=True)
        elif character == ")":
            self._close_parenthesis()
        elif not self._step_into_expansion(character):
            if self._starts_word and "$(" in self._open and _CASE.match(self._text, at):
                self._is_unclear = True  # a pattern of `case` ends with a parenthesis that closes nothing
            self._go(at + 1, starts_word=character in _WORD_ENDS)

    def _step_into_expansion(self, character: str) -> bool:
        """Read an expansion that is the same inside and outside of double quotes; return False for any other text."""
        at = self._at
        if character == "`":
            inside = re.compile(r"(?:[^`\\]|\\.)*", re.DOTALL).match(self._text, at + 1)
            self._skip_quoted(at + 1, inside.end() if inside else len(self._text), "inside backticks")
        elif self._text.startswith("$((", at):
            self._open.append("$((")
            self._go(at + 3)
        elif self._text.startswith("$(", at):
            self._open.append("$(")
            self._go(at + 2, starts_word=True)
        elif character == "$" and (match := self._placeholder.match(self._text, at + 1)):
            raise _Found(match[0], "behind a dollar sign")
        elif self._text.startswith("${", at):
            simple = _SIMPLE_EXPANSION.match(self._text, at)
            self._is_unclear = self._is_unclear or simple is None
            self._go(simple.end() if simple else at + 2)
        elif self._text.startswith("$'", at) and self._context != '"':
            self._is_unclear = True  # special quotes in some shells, a dollar sign and a quote in others
            self._go(at + 1)
        else:
            return False
        return True

    def _go(self, at: int, *, starts_word: bool = False) -> None:
        self._at = at
        self._starts_word = starts_word

    def _skip_escape(self) -> None:
        match = self._placeholder.match(self._text, self._at + 1)
        if match:
            raise _Found(match[0], "behind a backslash")
        is_continuation = self._text.startswith("\n", self._at + 1)
        self._go(self._at + 2, starts_word=self._starts_word and is_continuation)

    def _skip_quoted(self, start: int, end: int, where: str, *, keeps_end: bool = False) -> None:
        end = len(self._text) if end < 0 else end
        match = self._placeholder.search(self._text, start, end)
        if match:
            raise _Found(match[0], where)
        self._go(end if keeps_end else end + 1)

    def _close_parenthesis(self) -> None:
        is_arithmetic = self._context == "$((" and self._text.startswith("))", self._at)
        is_substitution = self._context == "$("
        if self._context in ("(", "$(") or is_arithmetic:
            self._open.pop()
        # A `)` of arithmetic belongs to a `(` that was not counted. At the top level it ends a pattern of `case`.
        self._go(self._at + (2 if is_arithmetic else 1), starts_word=not (is_substitution or is_arithmetic))

    def _begin_heredoc(self) -> None:
        match = _HEREDOC.match(self._text, self._at)
        if match is None or self._placeholder.search(match[2]):
            self._is_unclear = True
            self._go(self._at + 2)
            return
        end = re.sub(r"\\(.)|['\"]", lambda found: found[1] or "", match[2])
        self._heredocs.append((end, match[1] == "-"))
        self._go(match.end())

    def _skip_heredocs(self) -> None:
        start = self._at + 1
        for end, drops_tabs in self._heredocs:
            pattern = ("^\\t*" if drops_tabs else "^") + re.escape(end) + "$"
            match = re.compile(pattern, re.MULTILINE).search(self._text, start)
            stop = match.end() if match else len(self._text)
            inside = self._placeholder.search(self._text, start, stop)
            if inside:
                raise _Found(inside[0], "inside a here-document")
            start = min(stop + 1, len(self._text))
        self._heredocs.clear()
        self._go(start, starts_word=True)


def javascript_string(value: Json) -> str:
    """Return a value in the form of JavaScript's `String()`, because AgentV reads any `text` like that."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "[object Object]"
    if isinstance(value, list):
        return ",".join("" if item is None else javascript_string(item) for item in value)
    if not is_number(value):
        return compact_json(value)
    try:
        number = float(value)
    except OverflowError:  # an integer of more than 300 digits
        number = math.copysign(math.inf, value)
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return format_number(number)
