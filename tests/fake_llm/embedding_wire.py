"""Embeddings of OpenAI, Azure and Gemini: how often a text has each letter."""

from string import ascii_lowercase
from typing import Any


def is_asked(path: str) -> bool:
    return path.endswith(("/embeddings", ":batchEmbedContents"))


def answer(body: Any) -> Any:
    if "requests" in body:
        texts = [part["text"] for each in body["requests"] for part in each["content"]["parts"]]
        return {"embeddings": [{"values": vector(text)} for text in texts]}
    data = [{"object": "embedding", "index": at, "embedding": vector(text)} for at, text in enumerate(body["input"])]
    tokens = sum(len(text.split()) for text in body["input"])
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data[::-1], "model": body["model"], "usage": usage}


def vector(text: str) -> list[float]:
    return [float(text.lower().count(letter)) for letter in ascii_lowercase]
