-- The business table of the demonstration: what the application would store anyway.
CREATE TABLE orders (
    order_id bigint PRIMARY KEY,
    customer text NOT NULL,
    amount numeric(10, 2) NOT NULL
);
