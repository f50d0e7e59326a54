"""A judge with a fault: no case has a `config` of that name."""

import json
import sys

print(json.load(sys.stdin)["config"]["limit"])
