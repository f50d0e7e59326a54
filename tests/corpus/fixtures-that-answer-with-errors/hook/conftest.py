def pytest_agentv_response(response):
    return response.replace(error='')
