package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// server makes and drops databases.
type server struct {
	maintenance string
	prefix      string
	port        int

	databases atomic.Int64

	templatesMu sync.Mutex
	templates   map[string]string // names by schema

	// A new connection can take longer than a new database, so the shared
	// server keeps some: bare ones, since a pool has goroutines that a test for
	// leaks would find. A server that its test may break keeps none.
	idle chan *pgx.Conn
}

const maxIdle = 4

func newServer(st state, reuse bool) *server {
	s := &server{maintenance: st.URL, prefix: st.Prefix, port: st.Port, templates: make(map[string]string)}
	if reuse {
		s.idle = make(chan *pgx.Conn, maxIdle)
	}
	return s
}

// checkURL says whether url can be given another database's name.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("not a URL") // the parser's error would print the password
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return errors.New("want a URL of the form postgres://user:password@host:port/database")
	}
	return nil
}

// url returns the URL of a database of the server.
func (s *server) url(dbname string) string {
	u, err := url.Parse(s.maintenance)
	if err != nil {
		return "" // checkURL has let it pass
	}
	u.Path, u.RawPath = "/"+dbname, ""
	return u.String()
}

// exec runs one statement in the maintenance database.
func (s *server) exec(ctx context.Context, sql string) error {
	return s.withConn(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return err
	})
}

func (s *server) withConn(ctx context.Context, use func(*pgx.Conn) error) (err error) {
	var conn *pgx.Conn
	select {
	case conn = <-s.idle:
	default:
		if conn, err = pgx.Connect(ctx, s.maintenance); err != nil {
			return err
		}
	}
	if err := use(conn); err != nil {
		return errors.Join(err, closeConn(conn))
	}
	select {
	case s.idle <- conn:
		return nil
	default:
		return closeConn(conn)
	}
}

// closeConn says goodbye to the server even if the caller's context has ended.
func closeConn(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return conn.Close(ctx)
}

// create makes a database with a new name: an empty one, or a copy of the
// template that is migrated into schema.
func (s *server) create(ctx context.Context, empty bool, schema string) (string, error) {
	template, how := "template0", "encoding 'UTF8'"
	if !empty {
		name, err := s.template(ctx, schema)
		if err != nil {
			return "", fmt.Errorf("making the template database: %w", err)
		}
		template, how = name, ""
	}
	name := fmt.Sprintf("%s%d_%d", s.prefix, os.Getpid(), s.databases.Add(1))
	err := s.withConn(ctx, func(conn *pgx.Conn) error { return copyDatabase(ctx, conn, name, template, how) })
	if err != nil {
		return "", fmt.Errorf("creating a database: %w", err)
	}
	return name, nil
}

// copyDatabase lets the server copy files, which takes a third of the time of
// its default, logging every page; before version 15 there was only the first.
func copyDatabase(ctx context.Context, conn *pgx.Conn, name, template, how string) error {
	var version int
	if err := conn.QueryRow(ctx, "select current_setting('server_version_num')::int").Scan(&version); err != nil {
		return err
	}
	if version >= 150000 {
		how += " strategy file_copy"
	}
	_, err := conn.Exec(ctx, "create database "+quote(name)+" template "+quote(template)+" "+how)
	return err
}

// drop removes a database and disconnects whoever still uses it.
func (s *server) drop(ctx context.Context, name string) error {
	return s.exec(ctx, "drop database if exists "+quote(name)+" with (force)")
}

// template returns the name of the database that is migrated into schema, made
// once for each content of the migrations.
func (s *server) template(ctx context.Context, schema string) (string, error) {
	s.templatesMu.Lock()
	defer s.templatesMu.Unlock()
	if name, made := s.templates[schema]; made {
		return name, nil
	}
	content, err := migrationsHash()
	if err != nil {
		return "", err
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s", content, schema))
	name := fmt.Sprintf("%stemplate_%x", s.prefix, key[:6])
	err = s.withConn(ctx, func(conn *pgx.Conn) error { return s.makeTemplate(ctx, conn, name, schema) })
	if err != nil {
		return "", err
	}
	s.templates[schema] = name
	return name, nil
}

// makeTemplate migrates a database under a provisional name and gives it its
// own name last, so that a template that exists is complete. Other processes
// wait for it at the advisory lock, which ends with a connection that failed.
func (s *server) makeTemplate(ctx context.Context, conn *pgx.Conn, name, schema string) (err error) {
	sum := sha256.Sum256([]byte(name))
	key := int64(binary.BigEndian.Uint64(sum[:8]))
	if _, err := conn.Exec(ctx, "select pg_advisory_lock($1)", key); err != nil {
		return err
	}
	defer func() {
		if err == nil {
			_, err = conn.Exec(ctx, "select pg_advisory_unlock($1)", key)
		}
	}()
	var exists bool
	err = conn.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", name).Scan(&exists)
	if err != nil || exists {
		return err
	}
	draft := name + "_draft"
	if _, err := conn.Exec(ctx, "drop database if exists "+quote(draft)+" with (force)"); err != nil {
		return err
	}
	if err := copyDatabase(ctx, conn, draft, "template0", "encoding 'UTF8'"); err != nil {
		return err
	}
	if err := migrate(ctx, s.url(draft), schema); err != nil {
		return fmt.Errorf("migrating into schema %q: %w", schema, err)
	}
	_, err = conn.Exec(ctx, "alter database "+quote(draft)+" rename to "+quote(name))
	return err
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// dropAll removes every database of a session from an external server.
func dropAll(ctx context.Context, st state) error {
	s := newServer(st, false)
	return s.withConn(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "select datname from pg_database where starts_with(datname, $1)", st.Prefix)
		if err != nil {
			return err
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, name := range names {
			if _, dropErr := conn.Exec(ctx, "drop database if exists "+quote(name)+" with (force)"); dropErr != nil {
				err = errors.Join(err, dropErr)
			}
		}
		return err
	})
}
