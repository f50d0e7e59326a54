"""Real coding agents, set up so that they ask the fake server; nothing of the user's own set-up reaches them."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import warm
from fake_llm import FakeLlm, Reply, ToolCall

PROGRAMS = "AGENTV_TEST_PROGRAMS"
"""Names the folder with the programs: that in which npm installed them."""
KEY = "sk-0123456789abcdef"
ARGUMENT = "sk-argument-fedcba9876543210"
MARK = "AGENTV_TEST_RUN"

CODEX_CONFIG = """
model_provider = "fake"
[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
env_key = "FAKE_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
"""


@dataclass(frozen=True)
class Agent:
    """What tests have to know of one program."""

    name: str
    kind: str
    program: str
    shell: Callable[[str], ToolCall]
    """The call of its shell that runs a command."""
    read: Callable[[str], ToolCall]
    """The call that reads a file."""
    shown_shell: Callable[[str], dict[str, Any]]
    """That call as results show it: its tool and its input."""
    target: Mapping[str, Any]
    free_shell: Mapping[str, Any] = field(default_factory=dict)
    """What a target needs for the shell to run anything; the rest of the tests does without."""
    prints: Callable[[Any], str] = str
    """Returns what a tool printed, from its output as results show it."""

    @property
    def path(self) -> Path:
        return Path(os.environ.get(PROGRAMS, "nowhere"), "node_modules", ".bin", self.program)


def _codex_output(output: Any) -> str:
    return str(output["output"])


CLAUDE = Agent(
    "claude",
    "claude-code",
    "claude",
    shell=lambda command: ToolCall("Bash", {"command": command, "description": "Run it"}, said="Let me see."),
    read=lambda path: ToolCall("Read", {"file_path": path}),
    shown_shell=lambda command: {"tool": "Bash", "input": {"command": command, "description": "Run it"}},
    target={},
    free_shell={"args": ["--allowedTools", "Bash"]},
)
CODEX = Agent(
    "codex",
    "codex",
    "codex",
    shell=lambda command: ToolCall("exec_command", {"cmd": command}, said="Let me see."),
    read=lambda path: ToolCall("exec_command", {"cmd": f"cat {path}"}),
    shown_shell=lambda command: {"tool": "command_execution", "input": {"command": f"/bin/bash -lc '{command}'"}},
    # Its sandbox does not start everywhere, least of all in containers.
    target={
        "model": "gpt-5.5",
        "args": ["--ephemeral", "--disable", "plugins", "--disable", "apps", "--sandbox", "danger-full-access"],
    },
    prints=_codex_output,
)
PI = Agent(
    "pi",
    "pi-coding-agent",
    "pi",
    shell=lambda command: ToolCall("bash", {"command": command}, said="Let me see."),
    read=lambda path: ToolCall("read", {"path": path}),
    shown_shell=lambda command: {"tool": "bash", "input": {"command": command}},
    target={"model": "fake/fake-model"},
)
AGENTS = {agent.name: agent for agent in (CLAUDE, CODEX, PI)}


class World:
    """A project whose targets are real agents, one per program that is there, and pytest run over it."""

    def __init__(self, folder: Path, server: FakeLlm) -> None:
        self.agents = [agent for agent in AGENTS.values() if agent.path.exists()]
        self.server = server
        self.folder = folder / "project"
        self.home = folder / "home"
        self.temp = folder / "temp"
        self.mark = uuid.uuid4().hex
        for path in (self.folder, self.home / ".codex", self.home / "pi", self.temp):
            path.mkdir(parents=True)
        self._urls = {agent.name: server.script(agent.name) for agent in self.agents}
        self._configure()

    def write(self, name: str, content: object) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")

    def write_targets(self, *targets: Mapping[str, Any]) -> None:
        """Write targets: each has a name and what it adds to the target of its `agent`, if it has one."""
        listed = []
        for target in targets:
            agent = AGENTS.get(target.get("agent", ""))
            base = {} if agent is None else {"provider": agent.kind, "executable": str(agent.path), **agent.target}
            listed.append({**base, **{key: value for key, value in target.items() if key != "agent"}})
        self.write("targets.yaml", {"targets": listed})

    def script(self, replies: Callable[[Agent], list[Reply]]) -> None:
        """Say what the server replies to each agent."""
        for agent in self.agents:
            self.server.script(agent.name, *replies(agent))

    def asked(self, agent: Agent, text: str) -> list[str]:
        """Return the questions of an agent that hold a text, as JSON."""
        bodies = (json.dumps(request.body, ensure_ascii=False) for request in self.server.asked(agent.name))
        return [body for body in bodies if text in body]

    def start(self, *args: str, **environment: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", "-p", "no:anyio"]
        self.folder.joinpath("out.jsonl").unlink(missing_ok=True)
        return warm.Popen(
            [*command, "-p", "no:cacheprovider", "--basetemp=base", "--agentv-out=out.jsonl", *args],
            cwd=self.folder,
            env=self._environment() | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *args: str, seconds: float = 120, **environment: str) -> str:
        """Run pytest to its end; return what it printed."""
        return self.end(self.start(*args, **environment), seconds)

    def end(self, run: "subprocess.Popen[str]", seconds: float) -> str:
        """Return what a run printed, once it has ended; one that hangs is made to tell where."""
        try:
            return run.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            state = f"its exit code is {run.poll()}, and these live: {self.living()}"
            run.send_signal(signal.SIGABRT)  # its fault handler prints where each thread is
            run.wait(timeout=10)
            self.kill_all()
            text = run.communicate()[0]
            raise AssertionError(f"the run did not end; {state}\n{text}") from None

    def results(self) -> dict[str, dict[str, Any]]:
        path = self.folder / "out.jsonl"
        lines = path.read_text("utf-8").split("\n") if path.exists() else []
        return {result["eval_id"]: result for result in (json.loads(line) for line in lines if line)}

    def living(self) -> dict[int, str]:
        """Return the processes of this world's runs, agents and tools included: commands by pid."""
        mark = f"{MARK}={self.mark}".encode()
        found = {}
        for path in Path("/proc").iterdir():
            try:
                if path.name.isdecimal() and mark in (path / "environ").read_bytes().split(b"\0"):
                    found[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
        return {pid: command for pid, command in found.items() if command}

    def leftovers(self) -> list[str]:
        """Return processes and temporary files that outlived a run; a moment is granted."""
        deadline = time.monotonic() + 10
        while (left := [*self.living().values(), *self._temporary()]) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def kill_all(self) -> None:
        for pid in self.living():
            os.kill(pid, signal.SIGKILL)

    def _temporary(self) -> Iterator[str]:
        yield from (str(path) for path in self.temp.iterdir())

    def _environment(self) -> dict[str, str]:
        """All that the programs are told of the world."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.temp),
            MARK: self.mark,
            "ANTHROPIC_BASE_URL": self._urls.get("claude", ""),
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "CODEX_HOME": str(self.home / ".codex"),
            "FAKE_API_KEY": KEY,
            "PI_CODING_AGENT_DIR": str(self.home / "pi"),
            "PI_OFFLINE": "1",
            "AGENTV_TEST_TOKEN": ARGUMENT,
            "PYTHONFAULTHANDLER": "1",
        }

    def _configure(self) -> None:
        config = CODEX_CONFIG.format(url=self._urls.get("codex"))
        (self.home / ".codex" / "config.toml").write_text(config)
        cost = {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0}
        provider = {
            "baseUrl": f"{self._urls.get('pi')}/v1",
            "api": "openai-completions",
            "apiKey": "FAKE_API_KEY",
            "models": [{"id": "fake-model", "cost": cost}, {"id": "other-model"}],
        }
        (self.home / "pi" / "models.json").write_text(json.dumps({"providers": {"fake": provider}}))
        settings = {"retry": {"enabled": False, "provider": {"maxRetries": 0}}}
        (self.home / "pi" / "settings.json").write_text(json.dumps(settings))
