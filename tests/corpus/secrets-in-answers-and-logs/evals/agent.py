import logging
import os


def answer(prompt):
    key = os.environ["SHOP_API_KEY"]
    print("printed", key)
    logging.getLogger("agent").warning("logged %s", key, exc_info=ValueError(key))
    if prompt == "dead":
        raise ConnectionError(f"refused with {key}")
    return f"The key is {key}, the database {os.environ['DB_URL']}."
