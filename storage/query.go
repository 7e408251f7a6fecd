package storage

import "time"

// Query asks for one page of a named index, in the order of (sort, record id)
// byte by byte. Candidates are not dependencies: a transaction that decides by
// one reads it again, or queries exclusively. Staged writes are not seen.
type Query struct {
	Index     Index
	Partition string    // the encoded partition of the index
	From      Bound     // sort values at or after From; zero: from the start
	Until     Bound     // sort values before Until; zero: to the end
	Direction Direction // Ascending by default
	Limit     int       // 1 to MaxPage; 0 means DefaultPage
	Resume    Resume    // where the page before ended; zero: from the beginning
	Lock      Lock      // Candidates by default
}

// Bound is one end of a range of sort values. At and ServerNow make one; the zero
// value is no bound.
type Bound struct {
	sort string
	now  bool
}

// At is the bound at an encoded sort value.
func At(sort string) Bound { return Bound{sort: sort} }

// ServerNow is the bound at the database's clock, read by the query itself, for
// an index sorted by one time. It stands just after every sort value up to that
// moment: Until ServerNow includes what is due exactly now.
func ServerNow() Bound { return Bound{now: true} }

// IsZero reports whether b is no bound.
func (b Bound) IsZero() bool { return b == Bound{} }

// Sort is the encoded sort value of a bound made by At.
func (b Bound) Sort() string { return b.sort }

// IsServerNow reports whether ServerNow made the bound.
func (b Bound) IsServerNow() bool { return b.now }

// Direction is the order of a page.
type Direction uint8

// The directions.
const (
	Ascending Direction = iota
	Descending
)

// Lock says what a query does to the records it returns.
type Lock uint8

const (
	// Candidates locks nothing.
	Candidates Lock = iota
	// Exclusive locks exactly the records of the page until the transaction ends,
	// passing over those that another transaction has locked. Later point reads of
	// them return the locked record without a round trip. So two concurrent
	// transactions never get the same record.
	Exclusive
)

// Resume is the position of the last index entry that a page scanned. It is a
// plain value and may be stored.
type Resume struct{ Sort, ID string }

// IsZero reports whether there is nothing to resume.
func (r Resume) IsZero() bool { return r == Resume{} }

// Page is one page of candidates.
type Page struct {
	Records []Record
	// Resume continues behind the last record that was scanned. A page may be short,
	// or empty, although more follows (exclusive queries leave out what is busy);
	// only a zero Resume means that the end was reached.
	Resume Resume
	// Time is the database's clock when the page was read; of an exclusive page, after
	// its records, and those of earlier pages of the transaction, were locked.
	Time time.Time
}
