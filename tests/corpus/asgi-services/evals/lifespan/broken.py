import json

app = json.nothing
