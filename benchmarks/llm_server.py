"""The tests' LLM server as a process: prints its base URL and serves until its input ends."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fake_llm import FakeLlm, Reply


def main() -> None:
    with FakeLlm() as server:
        print(server.script("benchmark", Reply("hello", delay_seconds=int(sys.argv[1]) / 1000)), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
