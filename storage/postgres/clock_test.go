package postgres

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClockIsNeverBehind lets a sample take its time on the way, in either
// direction: the estimate is never behind the database, whose clock is an hour off.
func TestClockIsNeverBehind(t *testing.T) {
	const off = -time.Hour
	for _, way := range []struct{ there, back time.Duration }{{0, 0}, {time.Second, 0}, {0, time.Second}, {time.Second, 2 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			var c clock
			_, ok := c.now()
			require.False(t, ok)
			sent := time.Now()
			time.Sleep(way.there)
			database := time.Now().Add(off)
			time.Sleep(way.back)
			c.sample(database, sent)
			time.Sleep(time.Minute)
			estimate, ok := c.now()
			require.True(t, ok)
			ahead := estimate.Sub(time.Now().Add(off))
			require.GreaterOrEqual(t, ahead, time.Duration(0))
			require.LessOrEqual(t, ahead, way.there+way.back)
			c.forget()
			_, ok = c.now()
			require.False(t, ok)
		})
	}
}
