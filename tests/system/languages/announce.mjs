// node-postgres. Arguments: the URL, the payload, statements with $1 for it.
import pg from "pg";

const [url, payload, ...statements] = process.argv.slice(2);
const client = new pg.Client({ connectionString: url });
await client.connect();
await client.query("BEGIN");
for (const statement of statements) await client.query(statement, [payload]);
await client.query("COMMIT");
await client.end();
