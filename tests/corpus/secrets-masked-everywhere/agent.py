import json
import logging
import os


def answer(prompt, request):
    print("printed", os.environ["SHOP_API_KEY"])
    logging.getLogger("shop").warning("logged %s", os.environ["SHOP_API_KEY"])
    if request.eval_id == "raised":
        raise RuntimeError(f"cannot sign in with {os.environ['DB_URL']}")
    call = {"tool": "fetch", "input": {"headers": {"Authorization": f"Bearer {os.environ['SHOP_API_KEY']}"}}}
    text = f"The key is {os.environ['SHOP_API_KEY']}, mode {os.environ['SHOP_MODE']}"
    return {"output_messages": [{"role": "assistant", "content": text, "tool_calls": [call]}]}
