"""Workflows for CI services, as `agentv init --ci` writes them."""

from collections.abc import Mapping
from typing import Final

GITHUB: Final = """\
# Runs the evaluations of every pull request, judges them against the baseline, and comments on the pull request.
# The actions are pinned to commits; Dependabot and Renovate update them, with the versions behind them.
name: evals
on:
  pull_request:
  push:
    branches: [main]  # its answers are what pull requests are compared with
permissions:
  contents: read
concurrency:
  group: evals-${{ github.ref }}
  cancel-in-progress: true
jobs:
  evals:
    runs-on: ubuntu-latest
    timeout-minutes: 30
    strategy:
      fail-fast: false
      matrix:
        shard: [@SHARDS@]
    # env:
    #   AZURE_OPENAI_API_KEY: ${{ secrets.AZURE_OPENAI_API_KEY }}
    steps:
@INSTALL@      - run: agentv validate evals
@RUN@      - uses: @UPLOAD@
        if: always()
        with:
          name: evals-${{ matrix.shard }}
          path: |
            results-*.jsonl
            junit.xml
          if-no-files-found: ignore
  report:
    needs: evals
    if: always()
    runs-on: ubuntu-latest
    timeout-minutes: 10
    permissions:
      contents: read
      pull-requests: write
    steps:
@INSTALL@      - uses: @DOWNLOAD@
        with:
          pattern: evals-*
          merge-multiple: true
      - run: agentv merge results-*.jsonl -o results.jsonl --allow-missing
      - uses: actions/cache/restore@CACHE@
        with:
          path: base.jsonl
          key: evals-base-${{ github.sha }}
          restore-keys: evals-base-
      - name: Write the report
        run: |
          if [ -f base.jsonl ]; then
            agentv report results.jsonl base.jsonl --format=markdown -o report.md
          else
            agentv report results.jsonl --format=markdown -o report.md
          fi
      - name: Comment on the pull request, or update the comment
        if: github.event_name == 'pull_request'
        continue-on-error: true  # pull requests from forks may not comment
        env:
          GH_TOKEN: ${{ github.token }}
          COMMENTS: repos/${{ github.repository }}/issues/${{ github.event.number }}/comments
          EDITED: repos/${{ github.repository }}/issues/comments
        run: |
          id=$(gh api "$COMMENTS" --paginate --jq '.[] | select(.body | startswith("@MARKER@")) | .id' | head -n 1)
          if [ -n "$id" ]; then
            gh api -X PATCH "$EDITED/$id" -F body=@report.md
          else
            gh api "$COMMENTS" -F body=@report.md
          fi
      - if: github.event_name == 'push'
        run: cp results.jsonl base.jsonl
      - uses: actions/cache/save@CACHE@
        if: github.event_name == 'push'
        with:
          path: base.jsonl
          key: evals-base-${{ github.sha }}
      - name: Judge the run against the baseline
        run: |
          if [ -f agentv.baseline.jsonl ]; then  # 2: too few answers to tell
            agentv compare --statistics --gate agentv.baseline.jsonl results.jsonl || [ $? -eq 2 ]
          fi
"""

GITLAB: Final = """\
# Runs the evaluations of every merge request, which shows failing cases at their lines, and judges them.
# Credentials are masked variables of the project's CI settings. With GITLAB_TOKEN, a project access token of the scope
# `api`, it comments on the merge request.
workflow:
  rules:
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
    - if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
stages: [evals, report]

.python:
  image: python:3.12
  variables:
    PIP_CACHE_DIR: $CI_PROJECT_DIR/.pip
  cache:
    key: pip-pytest-agentv
    paths: [.pip]
  before_script:
    - pip install pytest-agentv

evals:
  extends: .python
  stage: evals
  timeout: 30 minutes
@PARALLEL@  script:
    - agentv validate evals
    - >-
      pytest evals --agentv-shard=${CI_NODE_INDEX:-1}/${CI_NODE_TOTAL:-1} --agentv-workers=20
      --agentv-out=results-${CI_NODE_INDEX:-1}.jsonl --junitxml=junit.xml
  artifacts:
    when: always
    paths: [results-*.jsonl]
    reports:
      junit: junit.xml

report:
  extends: .python
  stage: report
  when: always
  timeout: 10 minutes
  script:
    - agentv merge results-*.jsonl -o results.jsonl --allow-missing
    - agentv report results.jsonl --format=gitlab-codequality -o codequality.json
    - agentv report results.jsonl --format=markdown -o report.md
    - |
      if [ -n "$GITLAB_TOKEN" ] && [ -n "$CI_MERGE_REQUEST_IID" ]; then
        notes=$CI_API_V4_URL/projects/$CI_PROJECT_ID/merge_requests/$CI_MERGE_REQUEST_IID/notes
        find='import json, sys; print(*[n["id"] for n in json.load(sys.stdin) if n["body"].startswith("@MARKER@")][:1])'
        id=$(curl -sSf -H "PRIVATE-TOKEN: $GITLAB_TOKEN" "$notes?per_page=100" | python3 -c "$find") || true
        how=$([ -n "$id" ] && echo PUT || echo POST)
        curl -sSf -o /dev/null -X "$how" -H "PRIVATE-TOKEN: $GITLAB_TOKEN" \\
          --data-urlencode body@report.md "$notes${id:+/$id}" || echo "The merge request got no comment."
      fi
    - |
      if [ -f agentv.baseline.jsonl ]; then  # 2: too few answers to tell
        agentv compare --statistics --gate agentv.baseline.jsonl results.jsonl || [ $? -eq 2 ]
      fi
  artifacts:
    when: always
    paths: [results.jsonl, report.md]
    reports:
      codequality: codequality.json
"""

_RUN_ALL: Final = """\
      - run: pytest evals --agentv-workers=20 --agentv-out=results-1.jsonl --junitxml=junit.xml
"""

_RUN_SHARD: Final = """\
      - run: >-
          pytest evals --agentv-shard=${{ matrix.shard }}/@COUNT@ --agentv-workers=20
          --agentv-out=results-${{ matrix.shard }}.jsonl --junitxml=junit.xml
"""

_INSTALL: Final = """\
      - uses: actions/checkout@df4cb1c069e1874edd31b4311f1884172cec0e10  # v6.0.3
      - uses: actions/setup-python@a309ff8b426b58ec0e2a45f0f869d46889d02405  # v6.2.0
        with:
          python-version: "3.12"
          cache: pip
          cache-dependency-path: .github/workflows/evals.yml
      - run: pip install pytest-agentv
"""

_PINNED: Final = {
    "@UPLOAD@": "actions/upload-artifact@043fb46d1a93c77aae656e7c1c64a875d1fc6a0a  # v7.0.1",
    "@DOWNLOAD@": "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c  # v8.0.1",
    "@CACHE@": "@55cc8345863c7cc4c66a329aec7e433d2d1c52a9  # v6.1.0",
}

_MARKER: Final = "<!-- pytest-agentv: evaluations -->"
PATHS: Final[Mapping[str, str]] = {"github": ".github/workflows/evals.yml", "gitlab": ".gitlab-ci.yml"}


def workflow(service: str, shards: int) -> str:
    """Return the text of the workflow for `github` or `gitlab`, whose jobs share the cases among them."""
    parts = {"@MARKER@": _MARKER}
    if service == "gitlab":
        return _filled(GITLAB, parts | {"@PARALLEL@": f"  parallel: {shards}\n" if shards > 1 else ""})
    run = _RUN_SHARD.replace("@COUNT@", str(shards)) if shards > 1 else _RUN_ALL
    numbers = ", ".join(map(str, range(1, shards + 1)))
    return _filled(GITHUB, parts | {"@RUN@": run, "@SHARDS@": numbers, "@INSTALL@": _INSTALL} | _PINNED)


def _filled(text: str, parts: Mapping[str, str]) -> str:
    for name, part in parts.items():
        text = text.replace(name, part)
    return text
