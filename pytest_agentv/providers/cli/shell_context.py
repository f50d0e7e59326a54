"""Finds placeholders of a command template in places where quoting cannot protect the shell.

A placeholder's value is put into single quotes. They protect the shell only where it expects a plain word. Inside
quotes of the template's author, the value's quotes would end these, and its text would run as a command.
"""

import re
from typing import Final

_WORD_ENDS: Final = " \t\n;&|()<>"
_SIMPLE_EXPANSION: Final = re.compile(r"""\$\{[^'"\\`{}()]*\}""")
_HEREDOC: Final = re.compile(r"""<<(-?)[ \t]*((?:[^\s;&|()<>'"\\]|\\.|'[^'\n]*'|"[^"\n]*")+)""")
_CASE: Final = re.compile(r"case\b")

_SINGLE: Final = "inside single quotes"
_DOUBLE: Final = "inside double quotes"
_UNCLEAR: Final = "behind shell code whose quoting cannot be told for certain"


def find_unsafe(template: str, placeholder: re.Pattern[str]) -> tuple[str, str] | None:
    """Return the first unprotected placeholder and its place; None if all are safe.

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
                self._step()
        except _Found as found:
            return found.result
        return None

    @property
    def _context(self) -> str:
        return self._open[-1] if self._open else ""

    def _step(self) -> None:
        match = self._placeholder.match(self._text, self._at)
        if match:
            self._check(match[0])
            self._go(match.end())
        elif self._context == '"':
            self._step_in_double_quotes()
        else:
            self._step_in_command()

    def _check(self, found: str) -> None:
        if self._is_unclear:
            raise _Found(found, _UNCLEAR)
        if self._context == '"':
            raise _Found(found, _DOUBLE)
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
            self._skip_quoted(at + 1, self._text.find("'", at + 1), _SINGLE)
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
            self._skip_quoted(at + 1, self._end_of_backticks(), "inside backticks")
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

    def _end_of_backticks(self) -> int:
        match = re.compile(r"(?:[^`\\]|\\.)*", re.DOTALL).match(self._text, self._at + 1)
        return match.end() if match else len(self._text)

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
