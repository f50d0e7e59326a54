"""Skills that are about products: price, stock, and the stock after an attached delivery note."""

import csv
import io
from typing import Final

from desk.task import Task
from desk.tools import Toolbox

STOCK_OF: Final = "SELECT name, stock FROM products WHERE sku = ?"


def describe_product(task: Task, tools: Toolbox) -> str:
    product = tools.call("find_product", text=task.question)
    if product is None:
        return "I know no product of that name."
    stock = f"{product['stock']} in stock" if product["stock"] else "sold out"
    return f"{product['name']} ({product['sku']}): {money(product['price_cents'])}, {stock}."


def book_delivery(task: Task, tools: Toolbox) -> str:
    """Say what the stock will be once the attached delivery notes (columns `sku`, `quantity`) are booked."""
    booked, unknown = [], []
    for line in csv.DictReader(io.StringIO("\n".join(task.csv_files))):
        rows = tools.call("run_query", sql=STOCK_OF, parameters=[line["sku"]])
        if rows:
            booked.append(f"{rows[0]['name']} {rows[0]['stock'] + int(line['quantity'])}")
        else:
            unknown.append(line["sku"])
    strangers = f" Not in our catalogue: {', '.join(unknown)}." if unknown else ""
    return f"Stock after the delivery: {', '.join(booked)}.{strangers}"


def money(cents: int) -> str:
    return f"{cents / 100:.2f} EUR"
