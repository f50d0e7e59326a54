"""From items to results.

Three threads take part in a process that runs evals:

- pytest's thread owns items, `Turns`, `Lookahead` and the terminal. It begins cases, waits for them and ends them
  through `Cases`. Threads that a test starts may call `Cases` as well, through the fixture `agentv`.
- The thread `agentv` runs the event loop of `LoopThread`. It owns targets, providers and the coroutines of `CaseRuns`,
  and must never block: code of users that may block runs in threads of its own.
- The thread `agentv-results` belongs to `Recorder` and alone writes to the results file.

Other threads reach the loop through `LoopThread.submit`, `run` and `call` only. The loop's own thread must not wait
for cases: `LoopThread.refuse_own_thread` raises there. `Scheduler` may be used from any thread; it has a lock.

A cancellation goes from the item to the process:

1. Something ends the item while it waits: a time-out, `pytest.exit`, Ctrl-C. `Turns.take` sees the exception.
2. `Cases.end` asks the case's `Ending`, which calls `task.cancel()` on the loop. When the run ends, all tasks are
   cancelled at the same time.
3. `CancelledError` rises through `run_case` to the provider, and there to `run_process`, which ends the process group.
4. `CaseRuns.run` records the case as an error of the kind `cancelled`. Its future is done, and pytest's thread goes on.

A case that was begun ahead and whose item is skipped takes the same way through `Cases.drop`, but gets no result.
"""
