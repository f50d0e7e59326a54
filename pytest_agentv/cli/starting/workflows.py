"""Workflows for CI services, as `agentv init --ci` writes them."""

from collections.abc import Mapping
from typing import Final

GITHUB: Final = """\
# Runs the evaluations of every pull request, judges them against the baseline, and comments on the pull request.
# The actions are pinned to their major versions. To pin them to commits, let Dependabot or Renovate do it.
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
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
          cache: pip
          cache-dependency-path: .github/workflows/evals.yml
      - run: pip install pytest-agentv
      - run: agentv validate evals
@RUN@      - uses: actions/upload-artifact@v4
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
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
          cache: pip
          cache-dependency-path: .github/workflows/evals.yml
      - run: pip install pytest-agentv
      - uses: actions/download-artifact@v4
        with:
          pattern: evals-*
          merge-multiple: true
      - run: agentv merge results-*.jsonl -o results.jsonl --allow-missing
      - uses: actions/cache/restore@v4
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
      - name: Judge the run against the baseline
        run: |
          if [ -f agentv.baseline.jsonl ]; then
            agentv compare --statistics --gate agentv.baseline.jsonl results.jsonl
          fi
      - if: github.event_name == 'push'
        run: mv results.jsonl base.jsonl
      - uses: actions/cache/save@v4
        if: github.event_name == 'push'
        with:
          path: base.jsonl
          key: evals-base-${{ github.sha }}
"""

GITLAB: Final = """\
# Runs the evaluations of every merge request, which shows failing cases at their lines, and judges them.
# Credentials are masked variables of the project's CI settings.
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
      if [ -f agentv.baseline.jsonl ]; then
        agentv compare --statistics --gate agentv.baseline.jsonl results.jsonl
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

_MARKER: Final = "<!-- pytest-agentv: evaluations -->"
PATHS: Final[Mapping[str, str]] = {"github": ".github/workflows/evals.yml", "gitlab": ".gitlab-ci.yml"}


def workflow(service: str, shards: int) -> str:
    """Return the text of the workflow for `github` or `gitlab`, whose jobs share the cases among them."""
    if service == "gitlab":
        return GITLAB.replace("@PARALLEL@", f"  parallel: {shards}\n" if shards > 1 else "")
    run = _RUN_SHARD.replace("@COUNT@", str(shards)) if shards > 1 else _RUN_ALL
    numbers = ", ".join(map(str, range(1, shards + 1)))
    return GITHUB.replace("@RUN@", run).replace("@SHARDS@", numbers).replace("@MARKER@", _MARKER)
