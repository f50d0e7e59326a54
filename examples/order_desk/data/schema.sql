-- The order desk of a small kitchen shop. Money is in cents, dates are ISO days.

CREATE TABLE customers (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    tier TEXT NOT NULL CHECK (tier IN ('standard', 'gold'))
);

CREATE TABLE products (
    sku         TEXT PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    category    TEXT NOT NULL REFERENCES return_policies (category),
    price_cents INTEGER NOT NULL CHECK (price_cents > 0),
    stock       INTEGER NOT NULL CHECK (stock >= 0)
);

CREATE TABLE orders (
    id           INTEGER PRIMARY KEY,
    customer_id  INTEGER NOT NULL REFERENCES customers (id),
    ordered_on   DATE NOT NULL,
    delivered_on DATE,
    status       TEXT NOT NULL CHECK (status IN ('open', 'shipped', 'delivered', 'cancelled'))
);

CREATE TABLE order_items (
    order_id         INTEGER NOT NULL REFERENCES orders (id),
    sku              TEXT NOT NULL REFERENCES products (sku),
    quantity         INTEGER NOT NULL CHECK (quantity > 0),
    unit_price_cents INTEGER NOT NULL CHECK (unit_price_cents > 0),
    PRIMARY KEY (order_id, sku)
);

CREATE TABLE return_policies (
    category TEXT PRIMARY KEY,
    days     INTEGER NOT NULL CHECK (days >= 0)
);
