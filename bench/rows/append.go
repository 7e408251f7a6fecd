package rows

import (
	"context"
	"fmt"
	"time"

	"github.com/seed4391e180/runlane/bench/lab"
	"github.com/seed4391e180/runlane/bench/measure"
	"github.com/seed4391e180/runlane/bench/report"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// writers is how many goroutines append to the one stream.
const writers = 16

// appendRow: one item a call to one stream. Afterwards the positions must have no gap.
func appendRow(ctx context.Context, b *Bench) ([]*report.Row, error) {
	d := func(l length) time.Duration {
		return span(l, pick(b, 500*time.Millisecond, 2*time.Second), pick(b, 2*time.Second, 10*time.Second))
	}
	ours := entry{"runlane", func(ctx context.Context, l length) (measure.Sample, error) {
		return b.appends(ctx, "runlane_append", d(l))
	}}
	var settings []entry
	for _, size := range pools {
		settings = append(settings, entry{fmt.Sprintf("message-db style function, pool %d", size), func(ctx context.Context, l length) (measure.Sample, error) {
			return b.messages(ctx, size, d(l))
		}})
	}
	m, err := b.against(ctx, measure.Sample.Rate, ours, settings)
	if err != nil {
		return nil, err
	}
	return []*report.Row{line("append to one stream, 16 writers", report.Items, report.AtLeast(1), "item", m, measure.Sample.Rate)}, nil
}

var item = []byte(`{"user":"u_123","template":"welcome"}`)

func (b *Bench) appends(ctx context.Context, name string, d time.Duration) (sample measure.Sample, err error) {
	s, err := b.open(ctx, name, postgres.Config{})
	if err != nil {
		return sample, err
	}
	defer s.close(&err)
	head, err := codec.ObservationHeadKey(environment, "stream")
	if err != nil {
		return sample, err
	}
	sample, err = counted(ctx, s.db, s.pool, writers, d, func(ctx context.Context) (int, error) {
		_, err := s.driver.Transact(ctx, "bench.append", func(ctx context.Context, tx storage.Tx) error { return tx.Append(ctx, head, item) })
		return 1, err
	})
	if err != nil {
		return sample, err
	}
	rec, err := s.head(ctx, head)
	if err != nil {
		return sample, err
	}
	n, err := s.db.Scalar(ctx, `SELECT count(*) FROM runlane.runlane_record_observation_records`)
	if err == nil && n != rec {
		err = fmt.Errorf("the stream has %d items and ends at position %d", n, rec)
	}
	return sample, err
}

// head is the last position of a stream.
func (s *store) head(ctx context.Context, key storage.Key) (int64, error) {
	last, _, err := storage.Transact(ctx, s.driver, "bench.head", func(ctx context.Context, tx storage.Tx) (int64, error) {
		rec, found, err := tx.Get(ctx, key)
		if err != nil || !found {
			return 0, err
		}
		h, kind := codec.DecodeObservationHead(rec)
		if kind != codec.Canonical {
			return 0, fmt.Errorf("the head is %v", kind)
		}
		return h.Position, nil
	})
	return last, err
}

// messageTables is a stream as message-db keeps it, less its index by category: writers
// of a stream take turns on an advisory lock, and the next position is the last one and one.
const messageTables = `
CREATE TABLE message (
	global_position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	stream text NOT NULL,
	position bigint NOT NULL,
	id uuid NOT NULL DEFAULT gen_random_uuid(),
	type text NOT NULL,
	data jsonb,
	time timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE UNIQUE INDEX message_id ON message (id);
CREATE UNIQUE INDEX message_stream ON message (stream, position);
CREATE FUNCTION write_message(in_stream text, in_type text, in_data jsonb) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	last bigint;
BEGIN
	PERFORM pg_advisory_xact_lock(hashtextextended(in_stream, 0));
	SELECT coalesce(max(position), 0) INTO last FROM message WHERE stream = in_stream;
	INSERT INTO message (stream, position, type, data) VALUES (in_stream, last + 1, in_type, in_data);
	RETURN last + 1;
END $$`

func (b *Bench) messages(ctx context.Context, size int, d time.Duration) (sample measure.Sample, err error) {
	db, err := b.Lab.Database(ctx, "hand_append", func(ctx context.Context, db *lab.Database) error { return db.Exec(ctx, messageTables) })
	if err != nil {
		return sample, err
	}
	pool, err := db.Pool(ctx, size)
	if err != nil {
		return sample, err
	}
	defer pool.Close()
	sample, err = counted(ctx, db, pool, writers, d, func(ctx context.Context) (int, error) {
		var position int64
		return 1, pool.QueryRow(ctx, `SELECT write_message($1, $2, $3)`, "stream", "mail", item).Scan(&position)
	})
	if err != nil {
		return sample, err
	}
	gaps, err := db.Scalar(ctx, `SELECT max(position) - count(*) FROM message`)
	if err == nil && gaps != 0 {
		err = fmt.Errorf("%d positions are missing", gaps)
	}
	return sample, err
}
