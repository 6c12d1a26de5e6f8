// pgx. Arguments: the URL, the payload, statements with $1 for it.
package main

import (
	"context"
	"os"

	"github.com/jackc/pgx/v5"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	ctx := context.Background()
	connection, err := pgx.Connect(ctx, os.Args[1])
	check(err)
	transaction, err := connection.Begin(ctx)
	check(err)
	for _, statement := range os.Args[3:] {
		_, err = transaction.Exec(ctx, statement, os.Args[2])
		check(err)
	}
	check(transaction.Commit(ctx))
	check(connection.Close(ctx))
}
