package driver_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// mendOldServer is what Check says of a server that is older than the oldest
// supported one. Such a server is tested all the same while it can be had: Check
// alone refuses it.
var mendOldServer = fmt.Sprintf("use PostgreSQL %d or newer", postgres.OldestServer)

func tooOld(h postgres.Health) bool {
	major := 0
	_, err := fmt.Sscanf(h.Server, "PostgreSQL %d", &major)
	return err == nil && major < postgres.OldestServer
}

// requireFit expects that Check finds nothing wrong, but for the version of a server
// that is too old.
func requireFit(t *testing.T, d *postgres.Driver) {
	t.Helper()
	h, err := d.Check(t.Context())
	if !tooOld(h) {
		require.NoError(t, err)
		return
	}
	require.ErrorIs(t, err, storage.ErrConfiguration)
	require.False(t, storage.Retryable(err))
	var c *storage.ConfigurationError
	require.ErrorAs(t, err, &c)
	require.Equal(t, mendOldServer, c.Mend)
}

// TestServerVersion asks the server itself how old it is, and finds that Check
// refuses it for that alone, and that nothing else does.
func TestServerVersion(t *testing.T) {
	d, db := open(t, postgres.Config{})
	var version int
	require.NoError(t, db.Pool(t).QueryRow(t.Context(), "SELECT current_setting('server_version_num')::int").Scan(&version))
	h, err := d.Check(t.Context())
	require.Contains(t, h.Server, fmt.Sprintf("PostgreSQL %d", version/10000))
	require.Equal(t, version/10000 < postgres.OldestServer, tooOld(h))
	if tooOld(h) {
		require.ErrorContains(t, err, fmt.Sprintf("the server is PostgreSQL %d", version/10000))
	}
	requireFit(t, d)

	key, err := codec.RunKey("prod", "r")
	require.NoError(t, err)
	_, err = d.Transact(t.Context(), "create", func(ctx context.Context, tx storage.Tx) error {
		return tx.Create(ctx, storage.Record{Key: key, Document: []byte(`{}`)})
	})
	require.NoError(t, err)
	_, found, err := get(t.Context(), d, key)
	require.NoError(t, err)
	require.True(t, found)
}
