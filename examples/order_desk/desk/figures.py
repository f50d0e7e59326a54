"""Skills that count and add up: the agent looks at the schema, writes a query and runs it."""

import re
from dataclasses import dataclass
from typing import Final

from desk.catalogue import money
from desk.task import Task
from desk.tools import Toolbox

MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
MONTH: Final = re.compile(rf"\b({'|'.join(MONTHS)}) (\d{{4}})\b", re.IGNORECASE)
STATUS: Final = re.compile(r"\b(open|shipped|delivered|cancelled)\b", re.IGNORECASE)
BEST_SELLER: Final = """
    SELECT products.name, SUM(quantity) AS sold FROM {lines}
    JOIN products USING (sku) JOIN orders ON orders.id = order_id
    WHERE status <> 'cancelled' GROUP BY sku ORDER BY sold DESC, products.name LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition of a query, and how the answer names it."""

    sql: str
    parameter: str | int
    words: str


def count_orders(task: Task, tools: Toolbox) -> str:
    filters = _filters(task, tools)
    sql = f"SELECT COUNT(*) AS number FROM orders{_where(filters)}"
    number = tools.call("run_query", sql=sql, parameters=[item.parameter for item in filters])[0]["number"]
    return f"{_plural(number, 'order')}{_words(filters)}."


def add_up_orders(task: Task, tools: Toolbox) -> str:
    filters = _filters(task, tools)
    price = next(column for column in _columns(tools, "order_items") if column.endswith("_cents"))
    conditions = _where(filters, "status <> 'cancelled'")
    sql = f"SELECT SUM(quantity * {price}) AS cents FROM orders JOIN order_items ON order_id = orders.id{conditions}"
    cents = tools.call("run_query", sql=sql, parameters=[item.parameter for item in filters])[0]["cents"]
    return f"{money(cents or 0)}{_words(filters)}, cancelled orders left out."


def name_best_seller(_task: Task, tools: Toolbox) -> str:
    tables = tools.call("list_tables")
    lines = next(table for table in tables if {"sku", "quantity"} <= set(_columns(tools, table)))
    best = tools.call("run_query", sql=BEST_SELLER.format(lines=lines), parameters=[])[0]
    return f"{best['name']} sells best: {best['sold']} pieces, cancelled orders left out."


def _filters(task: Task, tools: Toolbox) -> list[Filter]:
    """Turn the customer, month and status that a question names into conditions on `orders`."""
    filters = []
    customer = tools.call("find_customer", text=task.question)
    if customer:
        filters.append(Filter("customer_id = ?", customer["id"], f"of {customer['name']}"))
    month = MONTH.search(task.question)
    if month:
        number = f"{month[2]}-{MONTHS.index(month[1].lower()) + 1:02}"
        column = next(column for column in _columns(tools, "orders") if column.startswith("ordered"))
        filters.append(Filter(f"strftime('%Y-%m', {column}) = ?", number, f"in {month[1].title()} {month[2]}"))
    status = STATUS.search(task.question)
    if status:
        filters.append(Filter("status = ?", status[1].lower(), f"with status {status[1].lower()}"))
    return filters


def _columns(tools: Toolbox, table: str) -> list[str]:
    return [column["name"] for column in tools.call("describe_table", table=table)]


def _where(filters: list[Filter], *fixed: str) -> str:
    conditions = [*(item.sql for item in filters), *fixed]
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _words(filters: list[Filter]) -> str:
    return "".join(f" {item.words}" for item in filters)


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
