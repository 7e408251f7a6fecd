package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

func newTestService(t *testing.T) *service {
	t.Helper()
	s, err := newService(t.Context(), pgtest.New(t).Pool(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.store.Close()) })
	return s
}

func (s *service) drain(t *testing.T) {
	t.Helper()
	require.NoError(t, s.lane.Drain(t.Context(), lane.WorkerConfig{}))
}

func (s *service) runs(t *testing.T) (n int) {
	t.Helper()
	counts, err := s.store.CountRuns(t.Context(), storage.RunFilter{Environment: "prod"}, 0)
	require.NoError(t, err)
	for _, c := range counts {
		n += c.Runs
	}
	return n
}

// An order and its run exist together or not at all.
func TestOrderAndRunTogether(t *testing.T) {
	s := newTestService(t)
	first, err := s.take(t.Context(), order{"o1", "ada", 100})
	require.NoError(t, err)
	_, err = s.take(t.Context(), order{"o1", "ada", 100}) // the id is taken
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
	require.Equal(t, 1, s.runs(t))
	s.drain(t)
	got, err := s.ship.Result(t.Context(), first)
	require.NoError(t, err)
	require.Equal(t, shipment{"o1", "receipt charge of " + first + " over 100 cents"}, got)
}

// Shipping waits for the charge; one that fails ends the order.
func TestShippingWaitsForTheCharge(t *testing.T) {
	s := newTestService(t)
	paid, err := s.take(t.Context(), order{"o1", "ada", 100})
	require.NoError(t, err)
	free, err := s.take(t.Context(), order{"o2", "ada", 0})
	require.NoError(t, err)
	s.drain(t)
	for id, want := range map[string]run.Status{paid: run.StatusSucceeded, free: run.StatusFailed} {
		r, err := s.lane.Get(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, want, r.Status, r.Failure)
		page, err := s.store.ListEvents(t.Context(), storage.EventFilter{Environment: "prod", RunID: id})
		require.NoError(t, err)
		require.Equal(t, run.TypeWaiting, page.Events[2].Type())
		require.Equal(t, run.TypeResumed, page.Events[3].Type())
	}
}

// The schedule's task does what it is to do each morning.
func TestReport(t *testing.T) {
	s := newTestService(t)
	for n := range 3 {
		_, err := s.take(t.Context(), order{fmt.Sprint(n), "ada", 100})
		require.NoError(t, err)
	}
	var today string
	require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT current_date::text`).Scan(&today))
	res, err := s.report.Trigger(t.Context(), today)
	require.NoError(t, err)
	s.drain(t)
	n, err := s.report.Result(t.Context(), res.RunID)
	require.NoError(t, err)
	require.Equal(t, 3, n)
}

// The whole service, from a request to a shutdown in the midst of work: what was taken
// is done, by the next process if not by this one.
func TestServeAndShutDown(t *testing.T) {
	db := pgtest.New(t)
	start := func() (url string, stop func() error) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- serve(ctx, db.URL, listener) }()
		return "http://" + listener.Addr().String(), func() error {
			cancel()
			return <-done
		}
	}
	url, stop := start()
	var taken []string
	for n := range 50 {
		body, err := json.Marshal(order{fmt.Sprint(n), fmt.Sprint("customer ", n%5), 100})
		require.NoError(t, err)
		response, err := http.Post(url+"/orders", "application/json", bytes.NewReader(body))
		require.NoError(t, err)
		require.Equal(t, http.StatusAccepted, response.StatusCode)
		var answer struct{ Run string }
		require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
		require.NoError(t, response.Body.Close())
		taken = append(taken, answer.Run)
	}
	response, err := http.Post(url+"/orders", "application/json", bytes.NewReader([]byte(`{}`)))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
	require.NoError(t, stop())

	url, stop = start()
	for _, id := range taken {
		require.Eventually(t, func() bool {
			response, err := http.Get(url + "/orders/" + id)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			return response.StatusCode == http.StatusOK
		}, time.Minute, 10*time.Millisecond)
	}
	response, err = http.Get(url + "/orders/nobody")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusNotFound, response.StatusCode)
	require.NoError(t, stop())
}
