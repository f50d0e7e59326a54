from base_evals import SharedEvals


class TestShop(SharedEvals): ...


TestOther = SharedEvals
del SharedEvals
