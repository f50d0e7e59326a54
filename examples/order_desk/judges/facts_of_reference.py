"""Judge: each line of the reference answer is a fact that the answer must state."""

import json
import re
import sys


def states(answer: str, fact: str) -> bool:
    """Whether a fact occurs in an answer as whole words, so that `6 orders` is not found in `16 orders`."""
    return re.search(rf"(?<!\w){re.escape(fact)}(?!\w)", answer, re.IGNORECASE) is not None


def main() -> None:
    case = json.load(sys.stdin)
    facts = [line.strip() for line in case["reference_answer"].splitlines() if line.strip()]
    hits = [fact for fact in facts if states(case["candidate_answer"], fact)]
    misses = [fact for fact in facts if fact not in hits]
    result = {
        "score": len(hits) / len(facts) if facts else 0.0,
        "hits": hits,
        "misses": misses if facts else ["the case has no reference answer to compare with"],
        "reasoning": f"{len(hits)} of {len(facts)} facts are stated",
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
