"""Command templates: placeholders, filled with values that the shell takes as they are."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Final

from pytest_agentv.providers.base import ProviderRequest

LONGEST_ARGUMENT: Final = 128 * 1024 - 1
"""Bytes that Linux takes in one argument of a program, the final NUL not counted."""

_PLACEHOLDER: Final = re.compile(r"\{([A-Z_]+)\}")
_FILE_PLACEHOLDER: Final = re.compile(r"\{(path|basename)\}")


def render_command(template: str, values: Mapping[str, str]) -> str:
    """Fill a template in one pass: what a value brings in is not looked at again. Unknown placeholders stay."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), template)


def request_values(request: ProviderRequest, files_format: str, output_file: Path) -> dict[str, str]:
    """Return the placeholders' values of one request. Source: "Render and execute template"."""
    question = request.prompt.question
    prompt = f"{request.system_prompt}\n\n{question}" if request.system_prompt else question
    return _values(
        prompt=prompt,
        guidelines=request.prompt.guidelines,
        eval_id=request.eval_id,
        attempt=request.attempt,
        files=render_files(request.file_paths, files_format),
        output_file=output_file,
    )


def batch_values(file_paths: Iterable[str], files_format: str, output_file: Path) -> dict[str, str]:
    """Return the placeholders' values of a batch: no prompt, and the files of all requests."""
    return _values(eval_id="batch", files=render_files(file_paths, files_format), output_file=output_file)


def healthcheck_values(output_file: Path) -> dict[str, str]:
    """Return the placeholders' values of a health check: no prompt, no files."""
    return _values(eval_id="healthcheck", output_file=output_file)


def render_files(paths: Iterable[str], files_format: str) -> str:
    """Return each path once, in the files' format, joined by blanks; nothing at all where there are none."""
    return " ".join(_render_file(path, files_format) for path in dict.fromkeys(paths))


def quote(text: str) -> str:
    """Quote a text for a POSIX shell. A NUL, which no argument can hold, is dropped; a lone surrogate becomes `?`."""
    clean = text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
    return _quote(clean)


def shell_argv(command: str, folder: Path) -> list[str]:
    """Return the program that runs a command: longer ones than an argument can be are put into a script file."""
    if len(command.encode("utf-8", "surrogateescape")) <= LONGEST_ARGUMENT:
        return ["/bin/sh", "-c", command]
    script = folder / "command.sh"
    script.write_text(command, encoding="utf-8", errors="surrogateescape", newline="")
    return ["/bin/sh", str(script)]


def _values(
    *,
    eval_id: str,
    output_file: Path,
    prompt: str = "",
    guidelines: str = "",
    attempt: int = 0,
    files: str = "",
) -> dict[str, str]:
    return {
        "PROMPT": quote(prompt),
        "GUIDELINES": quote(guidelines),
        "EVAL_ID": quote(eval_id),
        "ATTEMPT": quote(str(attempt)),
        "FILES": files,
        "ATTACHMENTS": files,
        "OUTPUT_FILE": _quote(str(output_file)),
    }


def _render_file(path: str, files_format: str) -> str:
    values = {"path": _quote(path), "basename": _quote(PurePath(path).name)}
    return _FILE_PLACEHOLDER.sub(lambda match: values[match[1]], files_format)


def _quote(text: str) -> str:
    """Always in quotes, unlike `shlex.quote`: how a template's own quotes combine must not depend on the value."""
    return "'" + text.replace("'", "'\"'\"'") + "'"
