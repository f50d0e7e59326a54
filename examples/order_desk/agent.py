"""The order desk agent: as a Python function (`answer`) and as a program (`python3 agent.py --prompt …`).

It has no language model, so it needs no key and always answers the same; everything around it is as with a real one.
"""

import argparse
import json
import re
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, Final, TypeAlias

from desk.catalogue import book_delivery, describe_product
from desk.database import connect
from desk.figures import add_up_orders, count_orders, name_best_seller
from desk.orders import describe_status, judge_return, order_as_json
from desk.task import Task, read_task
from desk.tools import Toolbox

Skill: TypeAlias = Callable[[Task, Toolbox], str]

SKILLS: Final[tuple[tuple[str, Skill], ...]] = (
    (r"\bjson\b", order_as_json),
    (r"\b(return|refund|send back)", judge_return),
    (r"\bdelivery\b", book_delivery),
    (r"\bhow many\b.*\borders?\b", count_orders),
    (r"\b(spend|spent|revenue|turnover)\b", add_up_orders),
    (r"\b(best|most)\b", name_best_seller),
    (r"\b(price|stock|cost|sell)\b", describe_product),
    (r"\b(order|where|status|it)\b", describe_status),
)
"""The first pattern that is found in a question names the skill that answers it."""

SIGNATURE: Final = re.compile(r'end every answer with "(.+?)"', re.IGNORECASE)
CANNOT_HELP: Final = "Sorry, I can help only with orders, products and returns of this shop."


def answer(prompt: str) -> dict[str, Any]:
    """Answer a prompt that holds everything, as a model would get it: the entry point of `provider: python`."""
    return respond(prompt)


def respond(prompt: str, guidelines: str = "", files: Iterable[str] = ()) -> dict[str, Any]:
    """Answer a prompt and report the work: messages with tool calls, tokens and milliseconds.

    There is no tokenizer here, so the tokens reported are words.
    """
    started = time.perf_counter()
    task = read_task(prompt, guidelines, files)
    with closing(connect()) as connection:
        tools = Toolbox(connection)
        text = _sign(_skill_for(task)(task, tools), task)
    asked = " ".join((task.history, task.question, *task.documents.values()))
    return {
        "output_messages": [
            {"role": "assistant", "tool_calls": tools.calls},
            {"role": "assistant", "content": text},
        ],
        "token_usage": {"input": len(asked.split()), "output": len(text.split())},
        "duration_ms": round((time.perf_counter() - started) * 1000, 3),
    }


def _skill_for(task: Task) -> Skill:
    for pattern, skill in SKILLS:
        if re.search(pattern, task.question, re.IGNORECASE | re.DOTALL):
            return skill
    return lambda _task, _tools: CANNOT_HELP


def _sign(text: str, task: Task) -> str:
    signature = SIGNATURE.search(task.guidelines)
    return f"{text} {signature[1]}" if signature else text


def main() -> None:
    parser = argparse.ArgumentParser(description="Answer one question about the shop.")
    parser.add_argument("--prompt", required=True)
    parser.add_argument("--guidelines", default="")
    parser.add_argument("--files", nargs="*", default=[], metavar="PATH")
    parser.add_argument("--output", type=Path, help="write answer and tool calls here, as JSON")
    arguments = parser.parse_args()
    response = respond(arguments.prompt, arguments.guidelines, arguments.files)
    if arguments.output:
        arguments.output.write_text(json.dumps(response), encoding="utf-8")
    else:
        print(response["output_messages"][-1]["content"])


if __name__ == "__main__":
    main()
