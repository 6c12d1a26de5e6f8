"""The daemon as a process, against real servers, seen only from outside: environment, table, broker, HTTP, signals."""
