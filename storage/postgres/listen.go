package postgres

import (
	"context"
	"encoding/hex"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/storage"
)

// channelName is the one notification channel of a schema. The schema's name may
// be as long as a channel's, so it is hashed.
func channelName(schema string) string {
	h := fnv.New128a()
	h.Write([]byte(schema))
	return "runlane_" + hex.EncodeToString(h.Sum(nil))
}

const (
	listenPatience = 10 * time.Second // for connecting, and at most for the answer to a heartbeat
	reconnectFirst = 50 * time.Millisecond
	reconnectCap   = 5 * time.Second
	hintBuffer     = 256
)

// Listen is storage.Listener.Listen. It uses a connection of its own, outside the
// pool. Through a pooler in transaction mode no notification arrives; hints are
// lost then, as they may be, unless Config.ListenURL leads past the pooler.
func (d *Driver) Listen(ctx context.Context, hint func(topic string)) error {
	done, err := d.begin()
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(d.closing, cancel)
	defer stop()

	topics := make(chan string, hintBuffer)
	go d.receive(ctx, topics)
	for topic := range topics {
		hint(topic)
	}
	if d.closing.Err() != nil {
		return storage.ErrClosed
	}
	return ctx.Err()
}

// receive connects again and again until ctx ends, then closes topics.
func (d *Driver) receive(ctx context.Context, topics chan string) {
	defer close(topics)
	backoff := reconnectFirst
	for ctx.Err() == nil {
		began := time.Now()
		err := d.listenOnce(ctx, topics)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > reconnectCap {
			backoff = reconnectFirst
		}
		d.config.Logger.WarnContext(ctx, "lost the notification connection; hints may be lost until it is back", "error", err, "retry_in", backoff)
		wait := time.NewTimer(backoff/2 + rand.N(backoff/2))
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
		wait.Stop()
		backoff = min(2*backoff, reconnectCap)
	}
}

// listenOnce listens on one connection until it fails.
func (d *Driver) listenOnce(ctx context.Context, topics chan string) error {
	connecting, cancel := context.WithTimeout(ctx, listenPatience)
	defer cancel()
	conn, err := d.connectListener(connecting)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		conn.Close(closing)
	}()
	// Only once the server has agreed to listen is a poll of everything worth anything:
	// what is sent from now on arrives.
	if _, err := conn.Exec(connecting, "LISTEN "+pgx.Identifier{d.channel}.Sanitize()); err != nil {
		return err
	}
	pollEverything(topics)
	for {
		waiting, cancel := context.WithTimeout(ctx, d.config.ListenHeartbeat)
		n, err := conn.WaitForNotification(waiting)
		cancel()
		switch {
		case err == nil:
			offer(topics, n.Payload)
		case ctx.Err() != nil:
			return ctx.Err()
		case waiting.Err() == nil:
			return err
		default:
			if err := ping(ctx, conn, min(listenPatience, d.config.ListenHeartbeat)); err != nil {
				return err
			}
		}
	}
}

// connectListener connects as the pool does, with a password that may have changed
// since, or as Config.ListenURL says.
func (d *Driver) connectListener(ctx context.Context) (*pgx.Conn, error) {
	if d.listen != nil {
		return pgx.ConnectConfig(ctx, d.listen.Copy())
	}
	pool := d.pool.Config() // a copy
	if pool.BeforeConnect != nil {
		if err := pool.BeforeConnect(ctx, pool.ConnConfig); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, pool.ConnConfig)
}

func ping(ctx context.Context, conn *pgx.Conn, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return conn.Ping(ctx)
}

// offer passes a hint on, or drops what is waiting and asks for a poll of
// everything: the connection is always drained.
func offer(topics chan string, topic string) {
	select {
	case topics <- topic:
	default:
		pollEverything(topics)
	}
}

// pollEverything replaces the waiting hints by the one that covers them all.
func pollEverything(topics chan string) {
	for {
		select {
		case topics <- "":
			return
		default:
		}
		select {
		case <-topics:
		default:
		}
	}
}
