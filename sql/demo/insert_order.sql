-- The business change of the demonstration, in the same transaction as the events that announce it.
INSERT INTO orders (order_id, customer, amount)
VALUES (%(order_id)s, %(customer)s, %(amount)s);
