"""Skills that are about one order: where it is, its data as JSON, whether it can be returned."""

import json
import re
from datetime import date, timedelta
from typing import Any, Final

from desk.task import Task
from desk.tools import Row, Toolbox

ORDER_ID: Final = re.compile(r"\b(?:order|#)\s*(\d{4})\b", re.IGNORECASE)
ISO_DATE: Final = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
TODAY: Final = re.compile(rf"\btoday is ({ISO_DATE.pattern})", re.IGNORECASE)
TIER_RULE: Final = re.compile(r"(\w+) customers may return .*?within (\d+) days", re.IGNORECASE)


def order_of(task: Task) -> int | None:
    """Return the order a question is about: the one it names, else the one last named before."""
    named = ORDER_ID.findall(task.question) or ORDER_ID.findall(task.history)
    return int(named[-1]) if named else None


def describe_status(task: Task, tools: Toolbox) -> str:
    order = _look_up(task, tools)
    if isinstance(order, str):
        return order
    names = ", ".join(f"{item['quantity']} x {item['name']}" for item in order["items"])
    delivered = f" on {order['delivered_on']}" if order["delivered_on"] else ""
    return f"Order {order['id']} of {order['customer']} ({names}) is {order['status']}{delivered}."


def order_as_json(task: Task, tools: Toolbox) -> str:
    order = _look_up(task, tools)
    if isinstance(order, str):
        return json.dumps({"error": order})
    return json.dumps(
        {
            "order": order["id"],
            "customer": {"name": order["customer"], "tier": order["tier"]},
            "ordered_on": order["ordered_on"],
            "status": order["status"],
            "items": [{"name": item["name"], "quantity": item["quantity"]} for item in order["items"]],
            "total": order["total_cents"] / 100,
        }
    )


def judge_return(task: Task, tools: Toolbox) -> str:
    order = _look_up(task, tools)
    if isinstance(order, str):
        return order
    if order["status"] != "delivered":
        return f"No, order {order['id']} is {order['status']}: only delivered orders can be returned."
    days = _return_days(order, task, tools)
    if days == 0:
        return f"No, order {order['id']} holds vouchers, and those are not taken back."
    last_day = date.fromisoformat(order["delivered_on"]) + timedelta(days=days)
    reason = f"until {last_day} ({days} days after delivery on {order['delivered_on']})"
    if last_day < _day_of(task, default=last_day):
        return f"No, order {order['id']} could be returned only {reason}."
    return f"Yes, order {order['id']} can be returned {reason}."


def _look_up(task: Task, tools: Toolbox) -> Row | str:
    """Return the order, or the answer that says why there is none."""
    order_id = order_of(task)
    if order_id is None:
        return "Which order do you mean? Please give me its number."
    order: Row | None = tools.call("lookup_order", order_id=order_id)
    return order if order is not None else f"There is no order {order_id}."


def _return_days(order: dict[str, Any], task: Task, tools: Toolbox) -> int:
    """Days the whole order can be returned: the shortest of its categories, unless a guideline favours the customer."""
    categories = sorted({item["category"] for item in order["items"]})
    days: int = min(tools.call("refund_policy", category=category)["days"] for category in categories)
    by_tier = {tier.lower(): int(number) for tier, number in TIER_RULE.findall(task.guidelines)}
    return by_tier.get(order["tier"], days) if days else 0


def _day_of(task: Task, default: date) -> date:
    """Return the day a question is about: the one it names, else the one the conversation says it is today."""
    named = ISO_DATE.findall(task.question) or TODAY.findall(task.history)
    return date.fromisoformat(named[-1]) if named else default
