-- Asks for the notifications of new events; one channel serves all stores of the database.
LISTEN eventrecorded
