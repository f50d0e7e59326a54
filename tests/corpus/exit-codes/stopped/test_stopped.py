def test_stopped():
    raise KeyboardInterrupt
