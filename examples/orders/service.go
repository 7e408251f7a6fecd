package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// order is what customers send.
type order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
}

// shipment is what becomes of an order.
type shipment struct {
	Order   string `json:"order"`
	Receipt string `json:"receipt"`
}

// service takes orders and sees to them.
type service struct {
	pool  *pgxpool.Pool
	store *postgres.Driver
	lane  *lane.Lane

	charge *lane.Task[order, string]
	ship   *lane.Task[order, shipment]
	report *lane.Task[string, int]
}

const ordersTable = `CREATE TABLE IF NOT EXISTS orders (
	id text PRIMARY KEY, customer text NOT NULL, cents bigint NOT NULL, run_id text NOT NULL, created timestamptz NOT NULL DEFAULT now())`

func newService(ctx context.Context, pool *pgxpool.Pool) (*service, error) {
	if _, err := pool.Exec(ctx, ordersTable); err != nil {
		return nil, err
	}
	store, err := postgres.New(pool, postgres.Config{})
	if err != nil {
		return nil, err
	}
	l, err := lane.New(store, lane.Config{
		Environment: "prod",
		Limits:      map[string]lane.QueueLimits{"payments": {Running: 20, PerKey: 1}}, // one charge of a customer at a time
	})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	s := &service{pool: pool, store: store, lane: l}
	s.charge = lane.Define(l, "charge", s.charging, lane.TaskOptions{Queue: "payments", Timeout: time.Minute})
	s.ship = lane.Define(l, "ship", s.shipping, lane.TaskOptions{})
	s.report = lane.Define(l, "report", s.reporting, lane.TaskOptions{})
	lane.Schedule(l, "daily report", s.report, lane.Cron("0 6 * * *", time.UTC),
		func(fire time.Time) string { return fire.AddDate(0, 0, -1).Format(time.DateOnly) }, lane.ScheduleOptions{})
	return s, nil
}

// take stores an order and the run that sees to it in one transaction of the
// application's own: there is no order that nobody sees to, and no run without one.
func (s *service) take(ctx context.Context, o order) (runID string, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		in, err := s.store.Join(ctx, tx)
		if err != nil {
			return err
		}
		triggered, err := s.ship.TriggerIn(ctx, in, o)
		if err != nil {
			return err
		}
		runID = triggered.RunID
		_, err = tx.Exec(ctx, `INSERT INTO orders (id, customer, cents, run_id) VALUES ($1, $2, $3, $4)`, o.ID, o.Customer, o.Cents, runID)
		return err
	})
	return runID, err
}

// shipping has the customer charged, by a run of its own, waits for that without
// occupying a worker, and ships. It may begin anew at any time, so the charge has an
// id that does not change from attempt to attempt.
func (s *service) shipping(ctx context.Context, a *lane.Attempt, o order) (shipment, error) {
	charge := "charge of " + a.RunID
	_, err := s.charge.Trigger(ctx, o, lane.TriggerOptions{RunID: charge, ConcurrencyKey: o.Customer})
	if exists := (*lane.RunExistsError)(nil); err != nil && !errors.As(err, &exists) {
		return shipment{}, err
	}
	receipt, err := s.charge.Result(ctx, charge)
	failed := (*lane.RunError)(nil)
	switch {
	case errors.Is(err, lane.ErrNotEnded):
		return shipment{}, a.WaitFor(charge)
	case errors.As(err, &failed):
		return shipment{}, lane.Permanent(fmt.Errorf("not paid: %w", err))
	case err != nil:
		return shipment{}, err
	}
	return shipment{Order: o.ID, Receipt: receipt}, nil
}

// charging would call a payment provider, with the run's id as idempotency key.
func (s *service) charging(_ context.Context, a *lane.Attempt, o order) (string, error) {
	if o.Cents <= 0 {
		return "", lane.Permanent(fmt.Errorf("an order of %d cents", o.Cents))
	}
	return fmt.Sprintf("receipt %s over %d cents", a.RunID, o.Cents), nil
}

// reporting counts the orders of a day.
func (s *service) reporting(ctx context.Context, _ *lane.Attempt, day string) (n int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM orders WHERE created >= $1::date AND created < $1::date + 1`, day).Scan(&n)
	return n, err
}

// handler is the HTTP interface: POST /orders takes one, GET /orders/{run} tells what
// has become of it.
func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		var o order
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&o); err != nil || o.ID == "" || o.Customer == "" {
			http.Error(w, "an order has an id, a customer and cents", http.StatusBadRequest)
			return
		}
		runID, err := s.take(r.Context(), o)
		if err != nil {
			http.Error(w, "the order is not taken", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		_ = json.NewEncoder(w).Encode(map[string]string{"run": runID})
	})
	mux.HandleFunc("GET /orders/{run}", func(w http.ResponseWriter, r *http.Request) {
		shipped, err := s.ship.Result(r.Context(), r.PathValue("run"))
		failed := (*lane.RunError)(nil)
		switch {
		case errors.Is(err, lane.ErrNotEnded):
			w.WriteHeader(http.StatusAccepted)
		case errors.Is(err, lane.ErrNoRun):
			http.NotFound(w, r)
		case errors.As(err, &failed):
			http.Error(w, failed.Failure.Message, http.StatusConflict)
		case err != nil:
			http.Error(w, "try again", http.StatusServiceUnavailable)
		default:
			_ = json.NewEncoder(w).Encode(shipped)
		}
	})
	return mux
}
