"""Sends prompts to the service in this process: no port, no server to start, the app's own code and dependencies."""

from typing import Any

import httpx


async def ask(prompt: str) -> dict[str, Any]:
    """Return the body of the reply. Another status than 200 raises: the case is an ERROR, not a bad answer."""
    from service import app  # noqa: PLC0415 - so that the eval files load where FastAPI is missing

    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        response = await client.post("/questions", json={"text": prompt}, headers={"X-Client": "evals"})
    response.raise_for_status()
    return {"text": response.text}


async def status(prompt: str) -> str:
    """Return status and reason of the reply, for cases that want a refusal."""
    try:
        await ask(prompt)
    except httpx.HTTPStatusError as error:
        return f"{error.response.status_code} {error.response.json()['detail']}"
    return "200"
