import base64
import html
import json
import os
from urllib.parse import quote, quote_plus


def answer(prompt):
    secret = os.environ["SHOP_PASSWORD"]
    spelled = {
        "plain": secret,
        "json": json.dumps(secret),
        "json in UTF-8": json.dumps(secret, ensure_ascii=False),
        "repr": repr(secret),
        "html": html.escape(secret),
        "path": quote(secret),
        "query": quote(secret, safe=""),
        "form": quote_plus(secret),
        "base64": base64.b64encode(secret.encode()).decode(),
        "login": base64.urlsafe_b64encode(f"ada:{secret}!".encode()).decode(),
    }
    text = "\n".join(f"{name}: {each}" for name, each in spelled.items())
    print(text)
    return text
