-- The engine clause of the table as the server has it; its TTL is the retention in force.
SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = {name:String}
