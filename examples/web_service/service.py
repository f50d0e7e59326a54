"""The service under test: a FastAPI app with one endpoint for questions, as it would be deployed."""

from typing import Annotated

from fastapi import Depends, FastAPI, Header, HTTPException
from pydantic import BaseModel, Field

app = FastAPI(title="Opening hours")

HOURS = {"monday": "9:00 to 18:00", "saturday": "10:00 to 14:00"}
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


class Question(BaseModel):
    text: str = Field(min_length=1)


class Reply(BaseModel):
    answer: str
    open: bool | None = None


def known_client(x_client: Annotated[str, Header()]) -> str:
    if x_client != "evals":
        raise HTTPException(403, "unknown client")
    return x_client


@app.post("/questions")
async def ask(question: Question, _client: Annotated[str, Depends(known_client)]) -> Reply:
    day = next((day for day in DAYS if day in question.text.lower()), None)
    if day is None:
        return Reply(answer="Please name a day of the week.")
    if day not in HOURS:
        return Reply(answer=f"We are closed on {day.title()}.", open=False)
    return Reply(answer=f"On {day.title()} we are open from {HOURS[day]}.", open=True)
