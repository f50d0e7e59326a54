INSERT INTO return_policies (category, days) VALUES
    ('appliances', 30),
    ('tableware', 14),
    ('vouchers', 0);

INSERT INTO customers (id, name, tier) VALUES
    (1, 'Ana Lima', 'gold'),
    (2, 'Ben Okoro', 'standard'),
    (3, 'Chiara Rossi', 'standard'),
    (4, 'Dmitri Volkov', 'gold'),
    (5, 'Elif Kaya', 'standard');

INSERT INTO products (sku, name, category, price_cents, stock) VALUES
    ('AP-100', 'Kettle', 'appliances', 3990, 12),
    ('AP-200', 'Toaster', 'appliances', 5450, 4),
    ('AP-300', 'Coffee grinder', 'appliances', 8900, 0),
    ('TW-100', 'Tea cup', 'tableware', 750, 140),
    ('TW-200', 'Dinner plate', 'tableware', 1200, 86),
    ('VO-050', 'Gift card', 'vouchers', 5000, 1000);

INSERT INTO orders (id, customer_id, ordered_on, delivered_on, status) VALUES
    (1001, 1, '2026-01-12', '2026-01-15', 'delivered'),
    (1002, 2, '2026-02-03', '2026-02-06', 'delivered'),
    (1003, 1, '2026-02-18', '2026-02-21', 'delivered'),
    (1004, 3, '2026-03-01', NULL, 'shipped'),
    (1005, 4, '2026-03-02', '2026-03-05', 'delivered'),
    (1006, 1, '2026-03-07', NULL, 'cancelled'),
    (1007, 5, '2026-03-09', '2026-03-12', 'delivered'),
    (1008, 2, '2026-03-11', NULL, 'open'),
    (1009, 1, '2026-03-14', '2026-03-17', 'delivered');

INSERT INTO order_items (order_id, sku, quantity, unit_price_cents) VALUES
    (1001, 'TW-100', 6, 750),
    (1001, 'AP-100', 1, 4290),
    (1002, 'AP-200', 1, 5450),
    (1003, 'AP-300', 1, 8900),
    (1004, 'TW-200', 4, 1200),
    (1004, 'AP-100', 2, 3990),
    (1005, 'AP-200', 1, 5450),
    (1005, 'TW-100', 2, 750),
    (1006, 'AP-300', 1, 8900),
    (1007, 'VO-050', 1, 5000),
    (1008, 'TW-100', 12, 750),
    (1009, 'AP-100', 1, 3990),
    (1009, 'TW-200', 6, 1200);
