"""An agent with tools, in two variants: `careful` looks up every price, `quick` trusts its memory now and then.

Its model is played by `Model`, so it needs no key. It speaks the messages of OpenAI's API, as the loop of a real agent
does, and is as moody as a real one: the same question does not always get the same answer.
"""

import json
import random
from collections import Counter
from typing import Any, Final

PRICES: Final = {"tent": 120, "stove": 45, "lamp": 30, "rope": 18, "boots": 95, "jacket": 140, "map": 12, "knife": 25}
LAST_YEAR: Final = PRICES | {"tent": 110, "stove": 49, "jacket": 125, "boots": 89}
"""What the model remembers."""

Message = dict[str, Any]


def price_of(article: str) -> dict[str, Any]:
    """Look up a price: the one tool of the agent."""
    return {"article": article, "euros": PRICES[article]}


class Model:
    """Plays a model that calls `price_of`, or answers from memory in a share of its answers."""

    def __init__(self, trust_in_memory: float) -> None:
        self.trust_in_memory = trust_in_memory
        self._asked: Counter[str] = Counter()

    def reply(self, messages: list[Message]) -> Message:
        """Stand in for `client.chat.completions.create(…).choices[0].message`."""
        question = messages[0]["content"]
        if messages[-1]["role"] == "tool":
            return _say(question, json.loads(messages[-1]["content"])["euros"])
        self._asked[question] += 1
        mood = random.Random(f"{question} {self._asked[question]}")
        if mood.random() < self.trust_in_memory:
            return _say(question, LAST_YEAR[_article(question)])
        arguments = json.dumps({"article": _article(question)})
        call = {"id": "call_1", "type": "function", "function": {"name": "price_of", "arguments": arguments}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}


def run(prompt: str, model: Model) -> list[Message]:
    """Let a model call tools until it answers; return the messages."""
    messages: list[Message] = [{"role": "user", "content": prompt}]
    while messages[-1]["role"] != "assistant" or messages[-1].get("tool_calls"):
        messages.append(model.reply(messages))
        for call in messages[-1].get("tool_calls", ()):
            found = price_of(**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(found)})
    return messages


_CAREFUL: Final = Model(trust_in_memory=0.04)
_QUICK: Final = Model(trust_in_memory=0.5)


def careful(prompt: str) -> list[Message]:
    return run(prompt, _CAREFUL)


def quick(prompt: str) -> list[Message]:
    return run(prompt, _QUICK)


def _say(question: str, euros: int) -> Message:
    return {"role": "assistant", "content": f"Together that is {euros * _pieces(question)} euros."}


def _article(question: str) -> str:
    return next(article for article in PRICES if article in question)


def _pieces(question: str) -> int:
    return next(int(word) for word in question.split() if word.isdigit())
