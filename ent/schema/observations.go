package schema

import "entgo.io/ent"

// ObservationHead is the collection ObservationHeads: the last position of an
// ordered stream.
type ObservationHead struct{ ent.View }

// Mixin declares the record.
func (ObservationHead) Mixin() []ent.Mixin {
	return []ent.Mixin{collection("observation_heads")}
}

// ObservationRecord is the collection ObservationRecords: one appended
// observation, keyed by stream and position.
type ObservationRecord struct{ ent.View }

// Mixin declares the record and its named index.
func (ObservationRecord) Mixin() []ent.Mixin {
	return []ent.Mixin{collection("observation_records",
		// Reading one stream in order.
		"observations_by_position",
	)}
}
