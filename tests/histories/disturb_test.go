package histories_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// disturbances counts what was done to the driver, and what its connections reported
// of it: a test whose faults never happened shows nothing.
type disturbances struct {
	mu     sync.Mutex
	done   map[string]int // faults by name
	errors map[string]int // of the server, by SQLSTATE
}

// lockNotAvailable is the SQLSTATE of a lock timeout.
const lockNotAvailable = "55P03"

// note counts one fault.
func (d *disturbances) note(fault string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done == nil {
		d.done = make(map[string]int)
	}
	d.done[fault]++
}

// count is how often a fault of that name, or an error of that SQLSTATE, occurred.
func (d *disturbances) count(name string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done[name] + d.errors[name]
}

func (d *disturbances) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	tell := func(counts map[string]int) string {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			parts = append(parts, fmt.Sprintf("%d × %s", counts[name], name))
		}
		return strings.Join(parts, ", ")
	}
	return fmt.Sprintf("faults: %s; errors of the server: %s", tell(d.done), tell(d.errors))
}

func (d *disturbances) learn(err error) {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.errors == nil {
		d.errors = make(map[string]int)
	}
	d.errors[pg.Code]++
}

// The methods of a pgx tracer: whatever a connection of the driver is told passes here.

func (d *disturbances) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (d *disturbances) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	d.learn(data.Err)
}

func (d *disturbances) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (d *disturbances) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (d *disturbances) TraceBatchEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	d.learn(data.Err)
}
