"""The SDK for judge scripts in Python: the input and result of `code_judge` scripts, and a client for targets.

It uses the standard library only, so that a judge starts in a few milliseconds.
"""

from pytest_agentv.sdk.judge import (
    CodeJudgeInput,
    ExecutionMetrics,
    Message,
    Result,
    TokenUsage,
    ToolCall,
    TraceEvent,
    TraceSummary,
    WireError,
    code_judge,
    read_input,
)
from pytest_agentv.sdk.target_client import (
    InvokeRequest,
    InvokeResponse,
    TargetClient,
    TargetInfo,
    TargetInvocationError,
    TargetNotAvailableError,
    create_target_client,
)

__all__ = [
    "CodeJudgeInput",
    "ExecutionMetrics",
    "InvokeRequest",
    "InvokeResponse",
    "Message",
    "Result",
    "TargetClient",
    "TargetInfo",
    "TargetInvocationError",
    "TargetNotAvailableError",
    "TokenUsage",
    "ToolCall",
    "TraceEvent",
    "TraceSummary",
    "WireError",
    "code_judge",
    "create_target_client",
    "read_input",
]
