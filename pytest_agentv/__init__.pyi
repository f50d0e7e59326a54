"""The public names: the one list of them. `docs/api.md` describes them under the same titles."""

__version__: str

# Evaluators
from pytest_agentv.evaluators.base import Evaluator as Evaluator
from pytest_agentv.model.results import Score as Score
from pytest_agentv.evaluators.context import Context as Context
from pytest_agentv.evaluators.context import Services as Services
from pytest_agentv.evaluators.context import Judge as Judge
from pytest_agentv.evaluators.context import Embedder as Embedder
from pytest_agentv.evaluators.context import Embedding as Embedding
from pytest_agentv.evaluators.context import ProxiedTargets as ProxiedTargets
from pytest_agentv.evaluators.context import ProxiedQuestion as ProxiedQuestion

# Checks
from pytest_agentv.evaluators.data import Equals as Equals
from pytest_agentv.evaluators.text import Contains as Contains
from pytest_agentv.evaluators.text import IContains as IContains
from pytest_agentv.evaluators.text import ContainsAny as ContainsAny
from pytest_agentv.evaluators.text import ContainsAll as ContainsAll
from pytest_agentv.evaluators.text import IContainsAny as IContainsAny
from pytest_agentv.evaluators.text import IContainsAll as IContainsAll
from pytest_agentv.evaluators.text import StartsWith as StartsWith
from pytest_agentv.evaluators.text import EndsWith as EndsWith
from pytest_agentv.evaluators.text import Regex as Regex
from pytest_agentv.evaluators.text import Word as Word
from pytest_agentv.evaluators.text import Words as Words
from pytest_agentv.evaluators.text import Length as Length
from pytest_agentv.evaluators.likeness import Levenshtein as Levenshtein
from pytest_agentv.evaluators.likeness import Rouge as Rouge
from pytest_agentv.evaluators.likeness import Bleu as Bleu
from pytest_agentv.evaluators.likeness import Similar as Similar
from pytest_agentv.evaluators.data import IsJson as IsJson
from pytest_agentv.evaluators.data import ContainsJson as ContainsJson
from pytest_agentv.evaluators.data import IsXml as IsXml
from pytest_agentv.evaluators.data import IsYaml as IsYaml
from pytest_agentv.evaluators.data import AnswerField as AnswerField
from pytest_agentv.evaluators.python import PythonCheck as PythonCheck
from pytest_agentv.evaluators.calls import ToolCalled as ToolCalled
from pytest_agentv.evaluators.judge import Statements as Statements

# Providers
from pytest_agentv.providers.kind import Provider as Provider
from pytest_agentv.providers.base import ProviderRequest as ProviderRequest
from pytest_agentv.providers.base import ProviderResponse as ProviderResponse
from pytest_agentv.providers.base import Conversation as Conversation
from pytest_agentv.cases.prompts import Prompt as Prompt
from pytest_agentv.cases.prompts import PromptMode as PromptMode
from pytest_agentv.cases.prompts import ChatMessage as ChatMessage
from pytest_agentv.providers.base import Adapter as Adapter
from pytest_agentv.providers.base import BatchProvider as BatchProvider
from pytest_agentv.providers.base import TargetEnvironment as TargetEnvironment
from pytest_agentv.model.cases import Target as Target
from pytest_agentv.targets.definitions import TargetDefinition as TargetDefinition
from pytest_agentv.providers.kind import Sources as Sources
from pytest_agentv.providers.base import ProviderFactory as ProviderFactory

# Fields of kinds
from pytest_agentv.model.kind import Text as Text
from pytest_agentv.model.kind import Amount as Amount
from pytest_agentv.evaluators.base import AnswerPath as AnswerPath
from pytest_agentv.model.kind import Items as Items
from pytest_agentv.model.kind import spelled as spelled
from pytest_agentv.model.kind import Part as Part

# Cases
from pytest_agentv.model.cases import EvalCase as EvalCase
from pytest_agentv.model.cases import TurnPlan as TurnPlan
from pytest_agentv.model.cases import SimulatedUser as SimulatedUser
from pytest_agentv.model.cases import Workspace as Workspace
from pytest_agentv.model.messages import InputMessage as InputMessage
from pytest_agentv.model.messages import Role as Role
from pytest_agentv.model.messages import ContentPart as ContentPart
from pytest_agentv.model.messages import TextPart as TextPart
from pytest_agentv.model.messages import FilePart as FilePart
from pytest_agentv.model.messages import ObjectPart as ObjectPart
from pytest_agentv.model.messages import OtherPart as OtherPart
from pytest_agentv.model.messages import Media as Media

# Answers
from pytest_agentv.model.messages import Message as Message
from pytest_agentv.model.messages import ToolCall as ToolCall
from pytest_agentv.model.messages import TraceEvent as TraceEvent
from pytest_agentv.model.messages import TraceEventType as TraceEventType
from pytest_agentv.model.messages import TraceSummary as TraceSummary
from pytest_agentv.model.messages import TokenUsage as TokenUsage
from pytest_agentv.model.messages import Costs as Costs
from pytest_agentv.model.messages import ExecutionMetrics as ExecutionMetrics

# Results
from pytest_agentv.model.results import EvalResult as EvalResult
from pytest_agentv.model.results import RepeatFigures as RepeatFigures
from pytest_agentv.model.results import ConversationFigures as ConversationFigures
from pytest_agentv.model.results import Spent as Spent
from pytest_agentv.model.results import BaselineFigures as BaselineFigures
from pytest_agentv.model.results import ShardFigures as ShardFigures
from pytest_agentv.model.results import EvaluatorResult as EvaluatorResult
from pytest_agentv.model.results import ErrorDetail as ErrorDetail
from pytest_agentv.model.results import Status as Status
from pytest_agentv.model.results import Verdict as Verdict
from pytest_agentv.errors import ErrorStage as ErrorStage
from pytest_agentv.errors import ErrorKind as ErrorKind

# Values of fixtures
from pytest_agentv.session.python_evals import Agentv as Agentv
from pytest_agentv.session.python_evals import EvalInput as EvalInput
from pytest_agentv.session.python_evals import PythonEvalResult as PythonEvalResult
from pytest_agentv.session.items import TargetCaller as TargetCaller
from pytest_agentv.model.options import RunOptions as RunOptions
from pytest_agentv.model.options import BaselineUpdate as BaselineUpdate
from pytest_agentv.model.options import Shard as Shard
from pytest_agentv.model.options import Gate as Gate
from pytest_agentv.model.options import OutputFormat as OutputFormat
from pytest_agentv.model.options import RunRule as RunRule
from pytest_agentv.model.options import Stop as Stop
from pytest_agentv.model.options import UnknownKeys as UnknownKeys

# Errors and warnings
from pytest_agentv.errors import AgentvError as AgentvError
from pytest_agentv.errors import EvaluatorError as EvaluatorError
from pytest_agentv.errors import ProviderError as ProviderError
from pytest_agentv.errors import TargetError as TargetError
from pytest_agentv.session.outcomes import EvalFailed as EvalFailed
from pytest_agentv.session.outcomes import EvalErrored as EvalErrored
from pytest_agentv.session.outcomes import AgentvWarning as AgentvWarning

# Plain data
from pytest_agentv.model.base import Record as Record
from pytest_agentv.model.base import Json as Json
from pytest_agentv.model.base import JsonObject as JsonObject
from pytest_agentv.model.base import ABSENT as ABSENT
from pytest_agentv.model.base import Absent as Absent
