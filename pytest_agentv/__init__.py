"""pytest-agentv: LLM and agent evaluations, written as YAML, run as ordinary pytest items.

The names below are the public interface, and `docs/api.md` describes them. Each is imported when it is first used. This
file imports nothing itself: every pytest run of a project that has the plugin installed, and every judge script that
uses `pytest_agentv.sdk`, pays for what this file loads.

PYTEST_DONT_REWRITE: `agentv eval` has imported this file when pytest starts, which would be a warning otherwise.
"""

__version__ = "0.1.0"

_NAMES = {
    "errors": ("AgentvError", "ErrorKind", "ErrorStage", "EvaluatorError", "ProviderError", "TargetError"),
    "evaluators.base": ("AnswerPath", "Evaluator"),
    "evaluators.context": (
        "Context",
        "Embedder",
        "Embedding",
        "Judge",
        "ProxiedQuestion",
        "ProxiedTargets",
        "Services",
    ),
    "evaluators.kinds.calls.tool_called": ("ToolCalled",),
    "evaluators.kinds.code.python": ("PythonCheck",),
    "evaluators.kinds.data.contains_json": ("ContainsJson",),
    "evaluators.kinds.data.equals": ("Equals",),
    "evaluators.kinds.data.field": ("AnswerField",),
    "evaluators.kinds.data.is_json": ("IsJson",),
    "evaluators.kinds.data.is_xml": ("IsXml",),
    "evaluators.kinds.data.is_yaml": ("IsYaml",),
    "evaluators.kinds.likeness.bleu": ("Bleu",),
    "evaluators.kinds.likeness.levenshtein": ("Levenshtein",),
    "evaluators.kinds.likeness.rouge": ("Rouge",),
    "evaluators.kinds.likeness.similar": ("Similar",),
    "evaluators.kinds.judges.statements": ("Statements",),
    "evaluators.kinds.text.contains": ("Contains",),
    "evaluators.kinds.text.contains_all": ("ContainsAll",),
    "evaluators.kinds.text.contains_any": ("ContainsAny",),
    "evaluators.kinds.text.ends_with": ("EndsWith",),
    "evaluators.kinds.text.icontains": ("IContains",),
    "evaluators.kinds.text.icontains_all": ("IContainsAll",),
    "evaluators.kinds.text.icontains_any": ("IContainsAny",),
    "evaluators.kinds.text.length": ("Length",),
    "evaluators.kinds.text.regex": ("Regex",),
    "evaluators.kinds.text.starts_with": ("StartsWith",),
    "evaluators.kinds.text.word": ("Word",),
    "evaluators.kinds.text.words": ("Words",),
    "evaluators.own": ("EvaluatorFactory", "EvaluatorSpec"),
    "loading.targets.definitions": ("TargetDefinition",),
    "models.base": ("ABSENT", "Absent", "Json", "JsonObject", "Record"),
    "models.cases": ("AnyEvaluator", "EvalCase"),
    "models.kind": ("Amount", "Items", "Part", "Text", "spelled"),
    "models.messages": (
        "ContentPart",
        "FilePart",
        "InputMessage",
        "Media",
        "Message",
        "ObjectPart",
        "OtherPart",
        "Role",
        "TextPart",
        "ToolCall",
    ),
    "models.options.values": (
        "BaselineUpdate",
        "Gate",
        "OutputFormat",
        "RunRule",
        "Shard",
        "Ship",
        "Stop",
        "UnknownKeys",
    ),
    "models.options.run_options": ("RunOptions",),
    "models.results": ("BaselineFigures", "EvalResult", "RepeatFigures", "ShardFigures", "Status"),
    "models.scores": ("ErrorDetail", "EvaluatorResult", "Score", "Verdict"),
    "models.targets": ("Target",),
    "models.traces": (
        "ExecutionMetrics",
        "JudgeMetrics",
        "TokenUsage",
        "TraceEvent",
        "TraceEventType",
        "TraceSummary",
    ),
    "prompts.prompt": ("ChatMessage", "Prompt", "PromptMode"),
    "providers.base": (
        "Adapter",
        "BatchProvider",
        "ProviderFactory",
        "ProviderRequest",
        "ProviderResponse",
        "TargetEnvironment",
    ),
    "providers.kind": ("Provider", "Sources"),
    "session.outcomes": ("AgentvWarning", "EvalErrored", "EvalFailed"),
    "session.python.cases": ("EvalInput",),
    "session.python.evals": ("Agentv",),
    "session.python.results": ("PythonEvalResult",),
    "session.running.target_caller": ("TargetCaller",),
}
"""The public names, by the module below `pytest_agentv` that they are imported from."""

_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604 - all are texts

TYPE_CHECKING = False  # type checkers treat this name as true; importing `typing` would cost judge scripts milliseconds
if TYPE_CHECKING:
    from pytest_agentv.errors import (
        AgentvError as AgentvError,
        ErrorKind as ErrorKind,
        ErrorStage as ErrorStage,
        EvaluatorError as EvaluatorError,
        ProviderError as ProviderError,
        TargetError as TargetError,
    )
    from pytest_agentv.evaluators.base import AnswerPath as AnswerPath, Evaluator as Evaluator
    from pytest_agentv.evaluators.context import (
        Context as Context,
        Embedder as Embedder,
        Embedding as Embedding,
        Judge as Judge,
        ProxiedQuestion as ProxiedQuestion,
        ProxiedTargets as ProxiedTargets,
        Services as Services,
    )
    from pytest_agentv.evaluators.kinds.calls.tool_called import ToolCalled as ToolCalled
    from pytest_agentv.evaluators.kinds.code.python import PythonCheck as PythonCheck
    from pytest_agentv.evaluators.kinds.data.contains_json import ContainsJson as ContainsJson
    from pytest_agentv.evaluators.kinds.data.equals import Equals as Equals
    from pytest_agentv.evaluators.kinds.data.field import AnswerField as AnswerField
    from pytest_agentv.evaluators.kinds.data.is_json import IsJson as IsJson
    from pytest_agentv.evaluators.kinds.data.is_xml import IsXml as IsXml
    from pytest_agentv.evaluators.kinds.data.is_yaml import IsYaml as IsYaml
    from pytest_agentv.evaluators.kinds.likeness.bleu import Bleu as Bleu
    from pytest_agentv.evaluators.kinds.likeness.levenshtein import Levenshtein as Levenshtein
    from pytest_agentv.evaluators.kinds.likeness.rouge import Rouge as Rouge
    from pytest_agentv.evaluators.kinds.likeness.similar import Similar as Similar
    from pytest_agentv.evaluators.kinds.judges.statements import Statements as Statements
    from pytest_agentv.evaluators.kinds.text.contains import Contains as Contains
    from pytest_agentv.evaluators.kinds.text.contains_all import ContainsAll as ContainsAll
    from pytest_agentv.evaluators.kinds.text.contains_any import ContainsAny as ContainsAny
    from pytest_agentv.evaluators.kinds.text.ends_with import EndsWith as EndsWith
    from pytest_agentv.evaluators.kinds.text.icontains import IContains as IContains
    from pytest_agentv.evaluators.kinds.text.icontains_all import IContainsAll as IContainsAll
    from pytest_agentv.evaluators.kinds.text.icontains_any import IContainsAny as IContainsAny
    from pytest_agentv.evaluators.kinds.text.length import Length as Length
    from pytest_agentv.evaluators.kinds.text.regex import Regex as Regex
    from pytest_agentv.evaluators.kinds.text.starts_with import StartsWith as StartsWith
    from pytest_agentv.evaluators.kinds.text.word import Word as Word
    from pytest_agentv.evaluators.kinds.text.words import Words as Words
    from pytest_agentv.evaluators.own import EvaluatorFactory as EvaluatorFactory, EvaluatorSpec as EvaluatorSpec
    from pytest_agentv.loading.targets.definitions import TargetDefinition as TargetDefinition
    from pytest_agentv.models.base import (
        ABSENT as ABSENT,
        Absent as Absent,
        Json as Json,
        JsonObject as JsonObject,
        Record as Record,
    )
    from pytest_agentv.models.cases import AnyEvaluator as AnyEvaluator, EvalCase as EvalCase
    from pytest_agentv.models.kind import (
        Amount as Amount,
        Items as Items,
        Part as Part,
        Text as Text,
        spelled as spelled,
    )
    from pytest_agentv.models.messages import (
        ContentPart as ContentPart,
        FilePart as FilePart,
        InputMessage as InputMessage,
        Media as Media,
        Message as Message,
        ObjectPart as ObjectPart,
        OtherPart as OtherPart,
        Role as Role,
        TextPart as TextPart,
        ToolCall as ToolCall,
    )
    from pytest_agentv.models.options.values import (
        BaselineUpdate as BaselineUpdate,
        Shard as Shard,
        Gate as Gate,
        OutputFormat as OutputFormat,
        RunRule as RunRule,
        Ship as Ship,
        Stop as Stop,
        UnknownKeys as UnknownKeys,
    )
    from pytest_agentv.models.options.run_options import RunOptions as RunOptions
    from pytest_agentv.models.results import (
        BaselineFigures as BaselineFigures,
        EvalResult as EvalResult,
        RepeatFigures as RepeatFigures,
        ShardFigures as ShardFigures,
        Status as Status,
    )
    from pytest_agentv.models.scores import (
        ErrorDetail as ErrorDetail,
        EvaluatorResult as EvaluatorResult,
        Score as Score,
        Verdict as Verdict,
    )
    from pytest_agentv.models.targets import Target as Target
    from pytest_agentv.models.traces import (
        ExecutionMetrics as ExecutionMetrics,
        JudgeMetrics as JudgeMetrics,
        TokenUsage as TokenUsage,
        TraceEvent as TraceEvent,
        TraceEventType as TraceEventType,
        TraceSummary as TraceSummary,
    )
    from pytest_agentv.prompts.prompt import ChatMessage as ChatMessage, Prompt as Prompt, PromptMode as PromptMode
    from pytest_agentv.providers.base import (
        Adapter as Adapter,
        BatchProvider as BatchProvider,
        ProviderFactory as ProviderFactory,
        ProviderRequest as ProviderRequest,
        ProviderResponse as ProviderResponse,
        TargetEnvironment as TargetEnvironment,
    )
    from pytest_agentv.providers.kind import Provider as Provider, Sources as Sources
    from pytest_agentv.session.outcomes import (
        AgentvWarning as AgentvWarning,
        EvalErrored as EvalErrored,
        EvalFailed as EvalFailed,
    )
    from pytest_agentv.session.python.cases import EvalInput as EvalInput
    from pytest_agentv.session.python.evals import Agentv as Agentv
    from pytest_agentv.session.python.results import PythonEvalResult as PythonEvalResult
    from pytest_agentv.session.running.target_caller import TargetCaller as TargetCaller
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
