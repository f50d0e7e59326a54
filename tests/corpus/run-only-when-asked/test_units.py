def test_units():
    assert True
