"""The keys that all services share."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from pytest_agentv.loading.problems import describe_value
from pytest_agentv.loading.targets.fields import RealSeconds, filled_text
from pytest_agentv.loading.targets.free_data import SHIELDED, Headers, reveal, secrets_in
from pytest_agentv.models.base import Json
from pytest_agentv.models.kind import spelled
from pytest_agentv.providers.retry_keys import RetryKeys
from pytest_agentv.providers.services.json_path import JsonPath, parse_path
from pytest_agentv.providers.services.reply import Paths
from pytest_agentv.providers.services.templates import check_templates

_DEFAULT_BODY: Final = {"prompt": "{{ prompt }}"}
_TOKENS: Final = ("input", "output", "cached", "reasoning")


def _template(value: Any) -> Any:
    check_templates(value)
    return value


def _path(value: object) -> str:
    text = filled_text(value)
    parse_path(text)
    return text


def _token_paths(value: object) -> object:
    if not isinstance(value, dict):
        return _path(value)
    if unknown := [key for key in value if key not in _TOKENS]:
        raise ValueError(f"expected paths for {', '.join(_TOKENS)}, got {describe_value(unknown[0])}")
    return {key: _path(item) for key, item in value.items()}


TEMPLATE: Final = AfterValidator(_template)
"""A field for data with `{{ prompt }}` and the like."""

PathText: TypeAlias = Annotated[str, BeforeValidator(_path)]
_PATH_SCHEMA: Final = {"type": "string"}
TokenPaths: TypeAlias = Annotated[
    str | dict[str, str],
    BeforeValidator(_token_paths),
    WithJsonSchema({"anyOf": [_PATH_SCHEMA, {"type": "object", "additionalProperties": _PATH_SCHEMA}]}),
]


def _parsed(text: str | None) -> JsonPath | None:
    return None if text is None else parse_path(text)


class Service(RetryKeys):
    """A service that answers requests over HTTP."""

    is_strict = True

    method: Literal["GET", "POST", "PUT", "PATCH"] = Field(default="POST", description="the method of the request")
    headers: Annotated[Headers, TEMPLATE] = Field(default={}, description="sent with each request")
    body: Annotated[Any, TEMPLATE, SHIELDED] = Field(
        default=None,
        description="what is sent, as JSON, or a text as it is (default: the prompt as `prompt`; none for GET)",
    )
    answer: PathText | None = Field(
        default=None, description="where the answer is in the reply (default: the reply, in one of the known shapes)"
    )
    tokens: TokenPaths | None = Field(
        default=None, description="where the tokens are: a path, or paths for `input`, `output`, `cached`, `reasoning`"
    )
    tool_calls: PathText | None = spelled(
        *("tool_calls", "toolCalls"), default=None, description="where the list of tool calls is"
    )
    context: PathText | None = Field(default=None, description="where the list of retrieved texts is")
    stream: Literal["sse"] | None = Field(
        default=None, description="`sse`: the reply is a stream of events; the paths apply to each"
    )
    timeout_seconds: RealSeconds | None = spelled(
        *("timeout_seconds", "timeoutSeconds"),
        default=None,
        description="limit of one call; `--agentv-timeout` applies as well, the shorter one counts",
    )

    @property
    def content(self) -> Json:
        """The body with templates to fill in; None: there is none."""
        if self.body is None:
            return None if self.method == "GET" else _DEFAULT_BODY
        return reveal(self.body)

    @property
    def paths(self) -> Paths:
        """The paths of the parts of an answer."""
        tokens = self.tokens
        return Paths(
            _parsed(self.answer),
            {name: parse_path(path) for name, path in tokens.items()}
            if isinstance(tokens, Mapping)
            else _parsed(tokens),
            _parsed(self.tool_calls),
            _parsed(self.context),
        )

    @property
    def secrets(self) -> Collection[str]:
        """The values that must not appear in messages."""
        return set(secrets_in([self.headers, self.body]))
