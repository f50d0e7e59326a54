"""Plays a model: it knows three facts, and is brief only where the prompt wants it."""

from typing import Final

FACTS: Final = {
    "return": "You may return unused articles within 30 days.",
    "tent": "The tent costs 120 euros.",
    "open": "We are open from 9:00 to 18:00.",
}
POLITE: Final = "Thank you for your question! {} Is there anything else that I can do for you today?"


def answer(prompt: str) -> str:
    question = prompt.rpartition("Question:")[2]
    fact = next((fact for word, fact in FACTS.items() if word in question), "I do not know.")
    return fact if "short" in prompt else POLITE.format(fact)
