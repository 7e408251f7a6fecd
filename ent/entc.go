//go:build ignore

// This program generates the client that operator reads query.
package main

import (
	"log"

	"github.com/seed4391e180/runlane/ent/entext"
)

func main() {
	if err := entext.Generate("./schema", "Run", "RunEvent"); err != nil {
		log.Fatal(err)
	}
}
