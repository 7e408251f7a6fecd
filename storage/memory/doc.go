// Package memory keeps durable runs in the memory of one process. It implements
// the whole contract of package storage and nothing outlives it, so it serves
// tests of programs that use a [storage.Driver], and it is the oracle with which
// the conformance suite of package storagetest compares other drivers.
//
//	store := memory.New(memory.Config{})
//	defer store.Close()
//
// It shares no code with the driver for PostgreSQL: an oracle that shared its
// engine would share its mistakes. It is optimistic all the same, and its conflicts
// are real: an attempt reads what is committed at that moment without locking it,
// stages its writes, and at the end locks what it touched, checks that what it saw
// still holds, and applies everything at once. Whatever makes a transaction run
// again on a database makes it run again here. Items are appended last, behind the
// lock of their stream's head, which is waited for.
//
// Documents keep the value and not the spelling they were written with, as in a
// jsonb column. Payloads are never shared between records.
package memory
