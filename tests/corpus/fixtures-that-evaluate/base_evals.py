# The line of an inherited test is that of its own class, in the file that pytest collects.
class SharedEvals:
    def test_echo(self, agentv):
        agentv.run("hi", evaluators=[{"contains": "nope"}]).assert_passed()
