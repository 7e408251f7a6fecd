package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/internal/txn"
)

// Seal is txn.Session.Seal: in one round trip, statement after statement, so that
// each sees what committed while the one before it waited: locks, checks under the
// locks, then the clock.
func (s *session) Seal(ctx context.Context, p *txn.Plan) (time.Time, error) {
	batch := &pgx.Batch{}
	s.begin(batch)
	groups := s.d.names.groupPlan(&txn.Plan{Expect: p.Expect}, nil)
	if texts, exclusive := s.d.locks(p, groups); len(texts) > 0 {
		batch.Queue(s.d.statements.lockTry, texts, exclusive)
	}
	if len(groups) > 0 {
		batch.Queue(s.d.statements.commit(groups), groupArgs(groups)...)
	}
	var now time.Time
	batch.Queue(s.d.statements.clock).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
	if err := s.sendOpen(ctx, batch, groups, lockKeys(p)); err != nil {
		return time.Time{}, err
	}
	return now.UTC(), nil
}

// Validate is txn.Session.Validate: one statement without locks.
func (s *session) Validate(ctx context.Context, p *txn.Plan) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer s.free()
	groups := s.d.names.groupPlan(&txn.Plan{Expect: p.Expect}, nil)
	s.roundTrips++
	_, err = conn.Exec(ctx, s.d.statements.commit(groups), groupArgs(groups)...)
	return classify(ctx, err, groups, nil)
}
