// Package ent is the generated, read-only client of the two tables that operator
// reads query. Everything but this file and entc.go is generated from ent/schema
// by `go generate ./ent`; a plain `ent generate` does not know the schemas'
// composite keys.
package ent

//go:generate go run entc.go
