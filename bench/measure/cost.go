package measure

// Cost is what work cost the server, for a number of units.
type Cost struct {
	Units      int
	Counted    bool  // false: the work was not counted
	Commits    int64 // that wrote something: records in the write-ahead log
	RoundTrips int64 // ReadyForQuery messages that the client received
	Rows       int64 // inserted, updated or deleted in tables
	Entries    int64 // added to the leaves of B-trees and to GIN indexes
	WALBytes   int64
}

func (c Cost) plus(other Cost) Cost {
	return Cost{
		Units:      c.Units + other.Units,
		Counted:    c.Counted || other.Counted,
		Commits:    c.Commits + other.Commits,
		RoundTrips: c.RoundTrips + other.RoundTrips,
		Rows:       c.Rows + other.Rows,
		Entries:    c.Entries + other.Entries,
		WALBytes:   c.WALBytes + other.WALBytes,
	}
}

// PerUnit is the cost of one unit.
type PerUnit struct {
	Commits    float64 `json:"commits"`
	RoundTrips float64 `json:"round_trips"`
	Rows       float64 `json:"rows"`
	Entries    float64 `json:"index_entries"`
	WALBytes   float64 `json:"wal_bytes"`
}

// Each is the cost of one unit; nil if nothing was counted.
func (c Cost) Each() *PerUnit {
	if !c.Counted || c.Units == 0 {
		return nil
	}
	per := func(n int64) float64 { return float64(n) / float64(c.Units) }
	return &PerUnit{per(c.Commits), per(c.RoundTrips), per(c.Rows), per(c.Entries), per(c.WALBytes)}
}
