def pytest_agentv_summary(results, verdict):
    with open("told.txt", "a") as file:
        print("end:", *sorted(f"{result.eval_id} {result.status}" for result in results), verdict, file=file)
