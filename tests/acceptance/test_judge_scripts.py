"""Judge scripts end to end: written with the SDK, or in plain Node, with targets that they call."""

import json
import re
import shutil

import pytest

TARGETS = """
targets:
  - {name: default, provider: mock, response: hello world, judge_target: strict}
  - {name: strict, provider: mock, response: strict says no}
  - {name: kind, provider: mock, response: kind says yes}
  - {name: unset, provider: azure, endpoint: "${{ NO_SUCH }}", api_key: "${{ NO_SUCH }}", model: "${{ NO_SUCH }}"}
"""

CASE = """
  - id: %s
    expected_outcome: says hello
    input_messages: [{role: user, content: Say hello}]
    evaluators:
      - name: judge
        type: code_judge
        script: [%s, %s]
        target: {max_calls: 5}
        min_words: 2
"""


def suite_of(*cases: tuple[str, str, str]) -> str:
    """Return an eval file of cases: id, interpreter and script of the judge."""
    return "evalcases:" + "".join(CASE % case for case in cases)


NODE_JUDGE = """
const fs = require('node:fs');
const base = process.env.AGENTV_TARGET_PROXY_URL;
const headers = {
  'Content-Type': 'application/json',
  Authorization: `Bearer ${process.env.AGENTV_TARGET_PROXY_TOKEN}`,
};
async function call(method, path, body) {
  const response = await fetch(base + path, { method, headers, body: body && JSON.stringify(body) });
  const found = await response.json();
  return response.ok ? found : `${response.status} ${found.error}`;
}
function chunked(body) {
  return new Promise((resolve, reject) => {
    const request = require('node:http').request(`${base}/invoke`, { method: 'POST', headers }, (response) => {
      let text = '';
      response.on('data', (data) => { text += data; });
      response.on('end', () => resolve(JSON.parse(text)));
    });
    request.on('error', reject);
    request.write(body.slice(0, 5));
    request.end(body.slice(5));
  });
}
async function main() {
  const input = JSON.parse(fs.readFileSync(0, 'utf8'));
  const first = await call('POST', '/invoke', { question: 'Is it good?', systemPrompt: 's', evalCaseId: 'a' });
  const kind = await chunked(JSON.stringify({ question: 'Is it?', target: 'kind' }));
  const nobody = await call('POST', '/invoke', { question: 'q', target: 'nobody' });
  const unset = await call('POST', '/invoke', { question: 'q', target: 'unset' });
  const { responses } = await call('POST', '/invokeBatch', {
    requests: [{ question: 'a' }, { question: 'b', target: 'default' }],
  });
  const info = await call('GET', '/info');
  const hits = [first.rawText, kind.rawText, nobody, `${unset.slice(0, 3)} True`];
  for (const { outputMessages } of responses) hits.push(outputMessages.at(-1).content);
  const words = input.candidate_answer.split(' ').length;
  console.log(JSON.stringify({ score: words >= input.config.min_words ? 1 : 0, hits, details: info }));
}
main();
"""

REPLIES = (
    "strict says no",
    "kind says yes",
    "400 Unknown target 'nobody'. Available: default, strict, kind, unset",
    "500 True",
    "strict says no",
    "hello world",
)


def judged(run):
    assert run.outcomes == {"passed": 1}, run.text
    [result] = run.results
    [evaluation] = result["evaluator_results"]
    return evaluation


def holds_token(text: str) -> bool:
    return re.search(r"\b[0-9a-f]{64}\b", text) is not None


@pytest.mark.node
@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
@pytest.mark.scenario("TypeScript SDK usage")
@pytest.mark.scenario("Preserve legacy payload shape")
def test_a_judge_in_plain_node_that_speaks_agentvs_wire_runs_unchanged(project):
    project.write("targets.yaml", TARGETS)
    project.write("a.eval.yaml", suite_of(("a", "node", "judge.js")))
    project.write("judge.js", NODE_JUDGE)
    evaluation = judged(project.run())
    assert tuple(evaluation["hits"]) == REPLIES
    assert evaluation["details"] == {
        "targetName": "strict",
        "maxCalls": 5,
        "callCount": 4,
        "availableTargets": ["default", "strict", "kind", "unset"],
    }


def test_the_token_of_the_proxy_is_nowhere_to_be_found(project, python):
    project.write("targets.yaml", TARGETS)
    project.write("a.eval.yaml", suite_of(("a", python, "judge.py"), ("b", python, "fails.py")))
    leak = "import os\ntoken = os.environ['AGENTV_TARGET_PROXY_TOKEN']\nassert len(token) == 64\n"
    project.write("judge.py", f'{leak}print(\'{{"score": 1, "hits": ["\' + token + \'"]}}\')')
    project.write("fails.py", f"import sys\n{leak}sys.exit(token)")
    run = project.run("-v", "-rA")
    assert run.statuses == {"a": "pass", "b": "error"}
    assert run.by_id["a"]["evaluator_results"][0]["hits"] == ["***"]
    for result in run.results:
        result.pop("case_hash")  # of the same length
        assert not holds_token(json.dumps(result))
    assert not holds_token(run.text)
