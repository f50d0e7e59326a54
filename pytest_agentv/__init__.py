"""pytest-agentv: LLM and agent evaluations, written as YAML, run as ordinary pytest items.

The names below are the public interface, and `docs/api.md` describes them. Each is imported when it is first used. This
file imports nothing itself: every pytest run of a project that has the plugin installed, and every judge script that
uses `pytest_agentv.sdk`, pays for what this file loads.

PYTEST_DONT_REWRITE: `agentv eval` has imported this file when pytest starts, which would be a warning otherwise.
"""

__version__ = "0.1.0"

_NAMES = {
    "cases.prompts": (
        "ChatMessage",
        "Prompt",
        "PromptMode",
    ),
    "errors": (
        "AgentvError",
        "ErrorKind",
        "ErrorStage",
        "EvaluatorError",
        "ProviderError",
        "TargetError",
    ),
    "evaluators.base": (
        "AnswerPath",
        "Evaluator",
    ),
    "evaluators.calls": ("ToolCalled",),
    "evaluators.context": (
        "Context",
        "Embedder",
        "Embedding",
        "Judge",
        "ProxiedQuestion",
        "ProxiedTargets",
        "Services",
    ),
    "evaluators.data": (
        "AnswerField",
        "Equals",
        "IsXml",
        "IsYaml",
    ),
    "evaluators.json_checks": (
        "ContainsJson",
        "IsJson",
    ),
    "evaluators.judge": ("Statements",),
    "evaluators.likeness": (
        "Bleu",
        "Levenshtein",
        "Rouge",
        "Similar",
    ),
    "evaluators.own": (
        "EvaluatorFactory",
        "EvaluatorSpec",
    ),
    "evaluators.patterns": ("Regex",),
    "evaluators.python": ("PythonCheck",),
    "evaluators.text": (
        "Contains",
        "ContainsAll",
        "ContainsAny",
        "EndsWith",
        "IContains",
        "IContainsAll",
        "IContainsAny",
        "Length",
        "StartsWith",
        "Word",
        "Words",
    ),
    "model.base": (
        "ABSENT",
        "Absent",
        "Json",
        "JsonObject",
        "Record",
    ),
    "model.cases": (
        "AnyEvaluator",
        "EvalCase",
        "Target",
    ),
    "model.kind": (
        "Amount",
        "Items",
        "Part",
        "Text",
        "spelled",
    ),
    "model.messages": (
        "ContentPart",
        "ExecutionMetrics",
        "FilePart",
        "InputMessage",
        "JudgeMetrics",
        "Media",
        "Message",
        "ObjectPart",
        "OtherPart",
        "Role",
        "TextPart",
        "TokenUsage",
        "ToolCall",
        "TraceEvent",
        "TraceEventType",
        "TraceSummary",
    ),
    "model.options": (
        "BaselineUpdate",
        "Gate",
        "OutputFormat",
        "RunRule",
        "Shard",
        "Ship",
        "Stop",
        "UnknownKeys",
    ),
    "model.results": (
        "BaselineFigures",
        "ErrorDetail",
        "EvalResult",
        "EvaluatorResult",
        "RepeatFigures",
        "Score",
        "ShardFigures",
        "Status",
        "Verdict",
    ),
    "model.run_options": ("RunOptions",),
    "providers.base": (
        "Adapter",
        "BatchProvider",
        "ProviderFactory",
        "ProviderRequest",
        "ProviderResponse",
        "TargetEnvironment",
    ),
    "providers.kind": (
        "Provider",
        "Sources",
    ),
    "session.outcomes": (
        "AgentvWarning",
        "EvalErrored",
        "EvalFailed",
    ),
    "session.python.evals": (
        "Agentv",
        "EvalInput",
        "PythonEvalResult",
    ),
    "session.running.items": ("TargetCaller",),
    "targets.definitions": ("TargetDefinition",),
}
"""The public names, by the module below `pytest_agentv` that they are imported from."""

_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604 - all are texts

TYPE_CHECKING = False  # type checkers treat this name as true; importing `typing` would cost judge scripts milliseconds
if TYPE_CHECKING:
    from pytest_agentv.cases.prompts import (
        ChatMessage as ChatMessage,
        Prompt as Prompt,
        PromptMode as PromptMode,
    )
    from pytest_agentv.errors import (
        AgentvError as AgentvError,
        ErrorKind as ErrorKind,
        ErrorStage as ErrorStage,
        EvaluatorError as EvaluatorError,
        ProviderError as ProviderError,
        TargetError as TargetError,
    )
    from pytest_agentv.evaluators.base import (
        AnswerPath as AnswerPath,
        Evaluator as Evaluator,
    )
    from pytest_agentv.evaluators.calls import (
        ToolCalled as ToolCalled,
    )
    from pytest_agentv.evaluators.context import (
        Context as Context,
        Embedder as Embedder,
        Embedding as Embedding,
        Judge as Judge,
        ProxiedQuestion as ProxiedQuestion,
        ProxiedTargets as ProxiedTargets,
        Services as Services,
    )
    from pytest_agentv.evaluators.data import (
        AnswerField as AnswerField,
        Equals as Equals,
        IsXml as IsXml,
        IsYaml as IsYaml,
    )
    from pytest_agentv.evaluators.json_checks import (
        ContainsJson as ContainsJson,
        IsJson as IsJson,
    )
    from pytest_agentv.evaluators.judge import (
        Statements as Statements,
    )
    from pytest_agentv.evaluators.likeness import (
        Bleu as Bleu,
        Levenshtein as Levenshtein,
        Rouge as Rouge,
        Similar as Similar,
    )
    from pytest_agentv.evaluators.own import (
        EvaluatorFactory as EvaluatorFactory,
        EvaluatorSpec as EvaluatorSpec,
    )
    from pytest_agentv.evaluators.patterns import (
        Regex as Regex,
    )
    from pytest_agentv.evaluators.python import (
        PythonCheck as PythonCheck,
    )
    from pytest_agentv.evaluators.text import (
        Contains as Contains,
        ContainsAll as ContainsAll,
        ContainsAny as ContainsAny,
        EndsWith as EndsWith,
        IContains as IContains,
        IContainsAll as IContainsAll,
        IContainsAny as IContainsAny,
        Length as Length,
        StartsWith as StartsWith,
        Word as Word,
        Words as Words,
    )
    from pytest_agentv.model.base import (
        ABSENT as ABSENT,
        Absent as Absent,
        Json as Json,
        JsonObject as JsonObject,
        Record as Record,
    )
    from pytest_agentv.model.cases import (
        AnyEvaluator as AnyEvaluator,
        EvalCase as EvalCase,
        Target as Target,
    )
    from pytest_agentv.model.kind import (
        Amount as Amount,
        Items as Items,
        Part as Part,
        Text as Text,
        spelled as spelled,
    )
    from pytest_agentv.model.messages import (
        ContentPart as ContentPart,
        ExecutionMetrics as ExecutionMetrics,
        FilePart as FilePart,
        InputMessage as InputMessage,
        JudgeMetrics as JudgeMetrics,
        Media as Media,
        Message as Message,
        ObjectPart as ObjectPart,
        OtherPart as OtherPart,
        Role as Role,
        TextPart as TextPart,
        TokenUsage as TokenUsage,
        ToolCall as ToolCall,
        TraceEvent as TraceEvent,
        TraceEventType as TraceEventType,
        TraceSummary as TraceSummary,
    )
    from pytest_agentv.model.options import (
        BaselineUpdate as BaselineUpdate,
        Gate as Gate,
        OutputFormat as OutputFormat,
        RunRule as RunRule,
        Shard as Shard,
        Ship as Ship,
        Stop as Stop,
        UnknownKeys as UnknownKeys,
    )
    from pytest_agentv.model.results import (
        BaselineFigures as BaselineFigures,
        ErrorDetail as ErrorDetail,
        EvalResult as EvalResult,
        EvaluatorResult as EvaluatorResult,
        RepeatFigures as RepeatFigures,
        Score as Score,
        ShardFigures as ShardFigures,
        Status as Status,
        Verdict as Verdict,
    )
    from pytest_agentv.model.run_options import (
        RunOptions as RunOptions,
    )
    from pytest_agentv.providers.base import (
        Adapter as Adapter,
        BatchProvider as BatchProvider,
        ProviderFactory as ProviderFactory,
        ProviderRequest as ProviderRequest,
        ProviderResponse as ProviderResponse,
        TargetEnvironment as TargetEnvironment,
    )
    from pytest_agentv.providers.kind import (
        Provider as Provider,
        Sources as Sources,
    )
    from pytest_agentv.session.outcomes import (
        AgentvWarning as AgentvWarning,
        EvalErrored as EvalErrored,
        EvalFailed as EvalFailed,
    )
    from pytest_agentv.session.python.evals import (
        Agentv as Agentv,
        EvalInput as EvalInput,
        PythonEvalResult as PythonEvalResult,
    )
    from pytest_agentv.session.running.items import (
        TargetCaller as TargetCaller,
    )
    from pytest_agentv.targets.definitions import (
        TargetDefinition as TargetDefinition,
    )
else:  # hidden from type checkers, so that they know a misspelt name

    def __getattr__(name):
        """Import a public name when it is first used."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415 - see above

        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__():
        """Return all names, for editors and consoles."""
        return sorted({*globals(), *_HOMES})
