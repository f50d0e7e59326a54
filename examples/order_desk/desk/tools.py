"""The agent's tools, and the toolbox that keeps a log of their calls."""

import sqlite3
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

Row: TypeAlias = dict[str, Any]
ToolCall: TypeAlias = dict[str, Any]

ORDER: Final = """
    SELECT orders.id, customers.name AS customer, customers.tier, ordered_on, delivered_on, status
    FROM orders JOIN customers ON customers.id = customer_id WHERE orders.id = ?
"""
ORDER_ITEMS: Final = """
    SELECT products.name, category, quantity, unit_price_cents
    FROM order_items JOIN products USING (sku) WHERE order_id = ? ORDER BY products.name
"""
NAMED: Final = {
    "customers": "SELECT id, name, tier FROM customers WHERE instr(lower(?), lower(name)) > 0",
    "products": "SELECT sku, name, price_cents, stock FROM products WHERE instr(lower(?), lower(name)) > 0",
}


def list_tables(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return [row["name"] for row in rows]


def describe_table(connection: sqlite3.Connection, table: str) -> list[Row]:
    """Return the name and the declared type of each column."""
    return _rows(connection, "SELECT name, type FROM pragma_table_info(?)", [table])


def run_query(connection: sqlite3.Connection, sql: str, parameters: list[str | int]) -> list[Row]:
    return _rows(connection, sql, parameters)


def find_customer(connection: sqlite3.Connection, text: str) -> Row | None:
    """Return the customer whose name occurs in a text."""
    return _first(connection, NAMED["customers"], text)


def find_product(connection: sqlite3.Connection, text: str) -> Row | None:
    """Return the product whose name occurs in a text."""
    return _first(connection, NAMED["products"], text)


def lookup_order(connection: sqlite3.Connection, order_id: int) -> Row | None:
    """Return an order with its customer, items and total in cents."""
    order = _first(connection, ORDER, order_id)
    if order is None:
        return None
    items = _rows(connection, ORDER_ITEMS, [order_id])
    return order | {"items": items, "total_cents": sum(item["quantity"] * item["unit_price_cents"] for item in items)}


def refund_policy(connection: sqlite3.Connection, category: str) -> Row | None:
    """Return for how many days after delivery a category can be returned; 0: never."""
    return _first(connection, "SELECT category, days FROM return_policies WHERE category = ?", category)


TOOLS: Final[Mapping[str, Callable[..., Any]]] = {
    tool.__name__: tool
    for tool in (list_tables, describe_table, run_query, find_customer, find_product, lookup_order, refund_policy)
}


class Toolbox:
    """Calls tools by name and remembers each call: what went in, what came out, how long it took."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.calls: list[ToolCall] = []

    def call(self, tool: str, **arguments: Any) -> Any:
        started = time.perf_counter()
        output = TOOLS[tool](self._connection, **arguments)
        self.calls.append(
            {
                "id": f"call-{len(self.calls) + 1}",
                "tool": tool,
                "input": arguments,
                "output": output,
                "duration_ms": round((time.perf_counter() - started) * 1000, 3),
            }
        )
        return output


def _rows(connection: sqlite3.Connection, sql: str, parameters: list[str | int]) -> list[Row]:
    return [dict(row) for row in connection.execute(sql, parameters)]


def _first(connection: sqlite3.Connection, sql: str, parameter: str | int) -> Row | None:
    return next(iter(_rows(connection, sql, [parameter])), None)
