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
	texts, exclusive := s.d.locks(p, groups)
	if len(texts) > 0 {
		batch.Queue(s.d.statements.lockTry, texts, exclusive)
	}
	if err := s.reserve(ctx, len(texts)); err != nil {
		return time.Time{}, err
	}
	if len(groups) > 0 {
		batch.Queue(s.d.statements.commit(groups), commitArgs(groups, "")...)
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
	groups := s.d.names.groupPlan(&txn.Plan{Expect: p.Expect}, nil)
	return s.query(ctx, statement{text: s.d.statements.commit(groups), args: commitArgs(groups, ""), groups: groups},
		func(pgx.Rows) error { return nil })
}
