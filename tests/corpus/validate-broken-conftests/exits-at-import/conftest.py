HOOK = 'pytest_agentv_'
raise SystemExit('no judges')
