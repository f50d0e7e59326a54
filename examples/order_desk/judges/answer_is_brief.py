"""Judge: full marks up to `max_words` words (key of the evaluator), then fewer with every further word."""

import json
import sys


def main() -> None:
    case = json.load(sys.stdin)
    limit = case["config"]["max_words"]
    words = len(case["candidate_answer"].split())
    verdict = f"{words} words, {limit} are allowed"
    result = {
        "score": min(1.0, limit / words) if words else 0.0,
        "hits": [verdict] if 0 < words <= limit else [],
        "misses": [] if 0 < words <= limit else [verdict],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
