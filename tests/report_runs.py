"""Invented results of a shop's assistant, for tests and benchmarks of the report: the same for the same seed."""

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

FILES = {
    "catalogue": ("facts", "prices"),
    "returns": ("policy", "facts"),
    "shipping": ("tools", "policy"),
    "warranty": ("policy",),
    "privacy": ("safety",),
    "trips/alps": ("long-answer", "tools"),
    "complaints": ("tone",),
}
ITEMS = ("Fjell 2 tent", "Hooded shell", "Trail 40 pack", "Gas stove", "Head torch", "Water filter", "Rope 60 m")
QUESTIONS = (
    "I bought the {item} {days} days ago and used it once. Can I send it back?",
    "When will order {order} with the {item} arrive in Ghent?",
    "The zip of my {item} broke after {days} days. Is that covered?",
    "What does the {item} cost, and how heavy is it?",
)
SENTENCES = (
    "The {item} costs {price} euros and weighs {weight} g.",
    "Returns are free within 30 days of delivery, as long as the item is clean.",
    "Order {order} left our warehouse yesterday and reaches Ghent on Friday.",
    "You get the money back to the card you paid with, normally within {days} working days.",
    "The guarantee covers material and seams for two years, not wear from normal use.",
    "I checked the stock: there are {weight} left in the central warehouse.",
    "Please send us a picture of the damage so that we can tell whether it can be mended.",
    "We keep order data for seven years because tax law asks for it.",
)
WRONG = (
    "You can return it at any time.",
    "I cannot find that, please call us.",
    "Returns are accepted within 14 days.",
)
THRESHOLD = 0.8
PRICES = {"small-model": 0.0011, "large-model": 0.0026}


def results(
    count: int,
    *,
    targets: Sequence[str] = ("small-model", "large-model"),
    repeat: int = 5,
    seed: int = 7,
    run: str = "run-1",
) -> list[dict[str, Any]]:
    """Return the records of `count` cases for each target. Two runs of other seeds differ by chance alone."""
    return [
        each for number in range(count) for target in targets for each in [_result(number, target, repeat, seed, run)]
    ]


def write(path: Path, records: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def broken(records: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Return records of which the first cases that always passed never do now."""
    left = count
    changed = []
    for record in records:
        if left and record["status"] == "pass" and record["repeat"]["passes"] == record["repeat"]["judged"]:
            left -= 1
            record = _failing(record)  # noqa: PLW2901
        changed.append(record)
    return changed


def _result(number: int, target: str, repeat: int, seed: int, run: str) -> dict[str, Any]:
    case, chance = random.Random(f"case {number}"), random.Random(f"{seed} {number} {target}")
    file = list(FILES)[number % len(FILES)]
    words = {"item": case.choice(ITEMS), "days": case.randint(3, 90), "order": case.randint(10_000, 99_999)}
    words |= {"price": case.randint(19, 480), "weight": case.randint(80, 2900)}
    said = [sentence.format(**words) for sentence in case.sample(SENTENCES, case.randint(2, 5))]
    skill = 0.3 if number % 17 == 3 else 0.97 if case.random() > 0.1 else 0.7
    answers = [_answer(said, chance.random() < skill, chance, words) for _ in range(repeat)]
    passes = sum(answer["status"] == "pass" for answer in answers)
    needed = -(-repeat * 4 // 5)
    shown = next((each for each in answers if each["status"] == "fail"), answers[0])
    milliseconds = chance.lognormvariate(8, 0.4)
    cost = PRICES.get(target, 0.001) * chance.lognormvariate(0, 0.3) * repeat
    eval_id = f"{words['item'].lower().replace(' ', '-')}-{number:03}"
    eval_file = f"evals/{file}.eval.yaml"
    question = case.choice(QUESTIONS).format(**words)
    ended = datetime(2026, 11, 20 + seed % 9, 6, number % 60)
    _time(answers, ended, milliseconds * 1.3, chance)
    record: dict[str, Any] = {
        "timestamp": _stamp(ended),
        "eval_id": eval_id,
        "dataset": "shop",
        "score": sum(answer["score"] for answer in answers) / repeat,
        "hits": [],
        "misses": [miss for each in shown["evaluator_results"] for miss in each["misses"]],
        "candidate_answer": shown["candidate_answer"],
        "target": target,
        "reasoning": "; ".join(each["reasoning"] for each in shown["evaluator_results"]),
        "lm_provider_request": {"chat_prompt": [_SYSTEM, {"role": "user", "content": question}]},
        "evaluator_results": shown["evaluator_results"],
        "schema_version": 1,
        "status": "pass" if passes >= needed else "fail",
        "threshold": THRESHOLD,
        "attempts": repeat,
        "execution_metrics": {
            "token_usage": {"input": 310 * repeat, "output": 90 * repeat},
            "cost_usd": cost,
            "duration_ms": milliseconds,
        },
        "node_id": f"{eval_file}::{eval_id}" + (f"@{target}" if len(PRICES) > 1 else ""),
        "run_id": run,
        "eval_file": eval_file,
        "line": 10 + number,
        "case_hash": hashlib.sha256(eval_id.encode()).hexdigest()[:16],
        "duration_ms": milliseconds * 1.3,
        "tags": list(FILES[file]),
        "expected_outcome": "Answers with the right figures, names the period, offers the next step.",
        "reference_answer": " ".join(said),
        "cost_source": "genai-prices",
        "repeat": _figures(answers, passes, needed),
        "answers": answers,
    }
    if "tools" in FILES[file]:
        record["output_messages"] = _conversation(words, shown["candidate_answer"])
    return _errored(record) if number % 97 == 50 else record


_SYSTEM = {"role": "system", "content": "You are the assistant of an outdoor shop. Answer from the catalogue only."}


def _answer(said: Sequence[str], passes: bool, chance: random.Random, words: dict[str, Any]) -> dict[str, Any]:
    sentences = list(said)
    if chance.random() < 0.5:
        sentences.insert(0, "Happy to help.")
    if not passes:
        sentences[chance.randrange(len(sentences))] = chance.choice(WRONG).format(**words)
    evaluators = list(_evaluators(passes, chance))
    score = sum(each["score"] * each["weight"] for each in evaluators) / sum(each["weight"] for each in evaluators)
    return {
        "candidate_answer": " ".join(sentences),
        "score": score,
        "status": "pass" if score >= THRESHOLD else "fail",
        "evaluator_results": evaluators,
    }


def _time(answers: Sequence[dict[str, Any]], ended: datetime, milliseconds: float, chance: random.Random) -> None:
    """Give answers times that add up to those of the case: they are asked two at a time."""
    shares = [chance.uniform(0.5, 1.5) for _ in answers]
    free = [ended - timedelta(milliseconds=milliseconds)] * 2
    for answer, share in zip(answers, shares, strict=True):
        took = milliseconds * share / sum(shares)
        lane = free.index(min(free))
        free[lane] += timedelta(milliseconds=took)
        answer |= {"timestamp": _stamp(free[lane]), "duration_ms": round(took, 1)}
        answer["execution_metrics"] = {"duration_ms": round(took / 1.3, 1)}


def _stamp(time: datetime) -> str:
    return f"{time.isoformat(timespec='milliseconds')}Z"


def _evaluators(passes: bool, chance: random.Random) -> Iterator[dict[str, Any]]:
    facts = 1.0 if passes else chance.choice((0.0, 0.25, 0.5))
    good, bad = (
        "The figures agree with the reference.",
        "The answer gives the period as 14 days; the reference says 30.",
    )
    common = {"verdict": "pass", "duration_ms": chance.lognormvariate(6, 0.3), "hits": []}
    yield {
        **common, "name": "facts", "type": "llm_judge", "score": facts, "weight": 2, "judge_model": "judge-model",
        "misses": [] if passes else ["the period of 30 days"], "reasoning": good if passes else bad,
    }  # fmt: skip
    tone = 1.0 if chance.random() < 0.9 else 0.5
    why = "Polite and direct." if tone == 1 else "Too curt: it offers no next step."
    yield {**common, "name": "tone", "type": "llm_judge", "score": tone, "weight": 1, "judge_model": "judge-model",
           "misses": [], "reasoning": why}  # fmt: skip
    found = 1.0 if passes or chance.random() < 0.3 else 0.0
    yield {**common, "name": "keywords", "type": "heuristic", "score": found, "weight": 1, "duration_ms": 0.1,
           "reasoning": "",
           "hits": ["30 days"] if found else [], "misses": [] if found else ['missing "30 days"']}  # fmt: skip


def _figures(answers: Sequence[dict[str, Any]], passes: int, needed: int) -> dict[str, Any]:
    return {
        "planned": len(answers), "asked": len(answers), "judged": len(answers), "passes": passes, "errors": 0,
        "needed": needed, "min_pass_rate": 0.8, "min_pass_rate_source": "file",
        "scores": [answer["score"] for answer in answers], "flaky": 0 < passes < len(answers),
    }  # fmt: skip


def _conversation(words: dict[str, Any], answer: str) -> list[dict[str, Any]]:
    call = {"tool": "search", "input": {"query": words["item"], "limit": 3}, "duration_ms": 120}
    call["output"] = [{"id": 1, "name": words["item"], "price": words["price"]}, {"id": 2, "name": "Tarp", "price": 60}]
    calls = {"role": "assistant", "content": "Let me look that up.", "tool_calls": [call]}
    return [calls, {"role": "assistant", "content": answer, "tool_calls": []}]


def _errored(record: dict[str, Any]) -> dict[str, Any]:
    error = "HTTP 503 from the model's server, after 3 requests"
    rest = {key: value for key, value in record.items() if key not in ("repeat", "answers", "evaluator_results")}
    detail = {"stage": "provider", "kind": "network"}
    answer = f"Error occurred: {error}"
    return rest | {"status": "error", "score": 0, "error": error, "error_detail": detail, "candidate_answer": answer,
                   "last_error": "HTTP 503", "request_attempts": 3, "waited_ms": 4200}  # fmt: skip


def _failing(record: dict[str, Any]) -> dict[str, Any]:
    chance = random.Random(record["eval_id"])
    words = {"item": "tent"}
    answers = [_answer([each["candidate_answer"]], False, chance, words) for each in record["answers"]]
    for answer, old in zip(answers, record["answers"], strict=True):
        answer["candidate_answer"] = f"{WRONG[0]} {old['candidate_answer'].partition('. ')[2]}"
        answer |= {key: old[key] for key in ("timestamp", "duration_ms", "execution_metrics")}
    shown = answers[0]
    figures = _figures(answers, 0, record["repeat"]["needed"])
    figures["confirm"] = _figures(answers * 2, 0, 8)
    return record | {
        "status": "fail", "score": sum(figures["scores"]) / len(answers), "answers": answers, "repeat": figures,
        "candidate_answer": shown["candidate_answer"], "evaluator_results": shown["evaluator_results"],
    }  # fmt: skip
