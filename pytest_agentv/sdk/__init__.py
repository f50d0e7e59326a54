"""The SDK for judge scripts in Python: the input and result of `code_judge` scripts, and a client for targets.

It uses the standard library only, so that a judge starts in a few milliseconds.
"""

from pytest_agentv.sdk.judge import (
    CodeJudgeInput,
    ExecutionMetrics,
    InvokeRequest,
    InvokeResponse,
    Message,
    Result,
    TargetClient,
    TargetInfo,
    TargetInvocationError,
    TargetNotAvailableError,
    TokenUsage,
    ToolCall,
    TraceEvent,
    TraceSummary,
    WireError,
    code_judge,
    create_target_client,
    read_input,
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
