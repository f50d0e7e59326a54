import no_such  # pytest_agentv_
