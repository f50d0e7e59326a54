def pytest_collection_modifyitems(config, items):
    config.hook.pytest_deselected(items=items[1:])
    del items[1:]
