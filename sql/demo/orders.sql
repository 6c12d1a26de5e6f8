-- The business side of the demonstration.

-- name: create
-- The business table of the demonstration: what the application would store anyway.
CREATE TABLE orders (
    order_id bigint PRIMARY KEY,
    customer text NOT NULL,
    amount numeric(10, 2) NOT NULL
);

-- name: insert
-- The business change of the demonstration, in the same transaction as the events that announce it.
INSERT INTO orders (order_id, customer, amount)
VALUES (%(order_id)s, %(customer)s, %(amount)s);

-- name: count_by_status
-- How many events are in which state; reads the whole table, which is small in a demonstration. Locks nothing.
SELECT
    status,
    count(*) AS events
FROM openoutbox_events
GROUP BY status;
