"""The operator's side of a consumer's inbox: create its table, delete old marks, count. Consumers use openoutbox."""
