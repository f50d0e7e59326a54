import logging
import os


def answer(prompt):
    print("printed", os.environ["SHOP_API_KEY"])
    logging.getLogger("agent").warning("logged %s", os.environ["SHOP_API_KEY"])
    return "hi"
