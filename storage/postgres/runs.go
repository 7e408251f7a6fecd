package postgres

import (
	"context"
	"errors"

	"entgo.io/ent/dialect/sql"

	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/ent"
	entrun "github.com/seed4391e180/runlane/ent/run"
	"github.com/seed4391e180/runlane/internal/txn"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
)

// runs begins a generated query on the driver's schema. It is for All, First and
// Only: those run modifiers last, when columns are named already.
func (d *Driver) runs(q querier) *ent.RunQuery {
	query := ent.NewClient(ent.Driver(entDriver{q: q})).Run.Query()
	query.Modify(func(s *sql.Selector) { s.FromExpr(sql.Raw(d.names.of(storage.Runs).name)) })
	return query
}

// read runs one operator read on a pooled connection; fn may run again. What a new
// transaction would get over, a read gets over as well, once: a connection that had
// died in the pool, a prepared statement that a migration has outdated.
func (d *Driver) read(ctx context.Context, fn func(querier) error) error {
	done, err := d.begin()
	if err != nil {
		return err
	}
	defer done()
	err = d.readOnce(ctx, fn)
	if stale := (*txn.Replay)(nil); errors.As(err, &stale) && stale.Final != nil {
		err = d.readOnce(ctx, fn)
	}
	return readError(err)
}

func (d *Driver) readOnce(ctx context.Context, fn func(querier) error) error {
	conn, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return classify(ctx, fn(d.ask(conn.Conn())), nil, nil)
}

// GetRun is storage.Operator.GetRun.
func (d *Driver) GetRun(ctx context.Context, environment, runID string) (r run.Run, found bool, err error) {
	key, err := codec.RunKey(environment, runID)
	if err != nil {
		return run.Run{}, false, err
	}
	err = d.read(ctx, func(q querier) error {
		row, err := d.runs(q).Where(entrun.EnvironmentKey(key.Partition), entrun.RunID(key.ID), entrun.StatusNotNil()).Only(ctx)
		if ent.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		r, found = decodeRun(key.Partition, key.ID, row.RecordVersion, row.RecordDocument, row.RecordPayload)
		return nil
	})
	return r, found, err
}

// nameHolder fills in which run holds a singleton key. What cannot be found out
// stays unknown: the refusal itself is certain.
func (d *Driver) nameHolder(ctx context.Context, conn *pgx.Conn, dup *storage.DuplicateActiveError) {
	partition, err := codec.Partition(dup.Environment)
	if err != nil {
		return
	}
	var active []string
	for _, s := range run.Statuses() {
		if s.Active() {
			active = append(active, string(s))
		}
	}
	ask := func(q querier) error {
		query := d.runs(q).Where(entrun.EnvironmentKey(partition), entrun.Task(dup.Task), entrun.SingletonKey(dup.SingletonKey),
			entrun.StatusIn(active...))
		query.Select(entrun.FieldRunID)
		rows, err := query.All(ctx)
		if err == nil && len(rows) == 1 {
			dup.RunID, err = keys.DecodeString(rows[0].RunID)
		}
		return err
	}
	if conn != nil {
		err = ask(conn)
	} else {
		err = d.read(ctx, ask)
	}
	if err != nil {
		d.config.Logger.WarnContext(ctx, "the holder of a singleton key is not known", "error", err)
	}
}

// decodeRun decodes a whole row. Typed columns are filled only for canonical runs,
// so a run that does not decode was written by a newer version.
func decodeRun(partition, id string, version int64, document, payload []byte) (run.Run, bool) {
	rec := storage.Record{
		Key:      storage.Key{Collection: storage.Runs, Partition: partition, ID: id},
		Version:  storage.MakeVersion(version),
		Document: document,
	}
	if payload != nil {
		rec.Document = codec.JoinPayload(document, payload)
	}
	r, kind := codec.DecodeRun(rec)
	return r, kind == codec.Canonical
}
