package keys

// SQLInt returns a SQL expression for the encoding of expr, an integer
// expression of PostgreSQL, as text. It is plain arithmetic on bigint, so it is
// immutable and needs no function of ours in the database. Null gives null.
//
// Expr is pasted in as it stands: it is a column or a parameter of a statement
// that is written in source code, never input.
func SQLInt(expr string) string { return sqlHex("#", "("+expr+")::bigint") }

// SQLTime returns a SQL expression for the encoding of expr, a timestamptz
// expression of PostgreSQL 14 or later, as text. Extract gives an exact numeric,
// so no microsecond is lost to floating point. Null gives null, infinity is an
// error.
//
// It equals [EncodeTime] for all that a timestamptz holds before
// 294247-01-10 04:00:54.775807 UTC, where the microseconds of a bigint end.
// Later times are an error, but for the first 43 microseconds, which extract
// rounds.
func SQLTime(expr string) string {
	return sqlHex("@", "(extract(epoch from ("+expr+")) * 1000000::numeric)::bigint")
}

func sqlHex(tag, bigint string) string {
	// The literal is quoted: bare, it is a numeric before it is negated, and
	// numeric has no operator #.
	return "('" + tag + "' || lpad(to_hex(" + bigint + " # '-9223372036854775808'::bigint), 16, '0'))"
}
