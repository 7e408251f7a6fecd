package lane

import (
	"time"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
)

// partition is one range of due runs, of a queue and a priority, with what a
// worker remembers of it.
//
// A claimed run leaves a dead entry at the front of the range, and a database has
// to step over all of them until it has cleaned up. So a worker does not begin at
// the front each time: it resumes behind the last entry that it has seen, and once
// it has seen the end it begins a little before the time at which that was.
//
// Due runs can appear behind that point: by a transaction that took long to
// commit, by a claim that was rolled back while others passed over its locks, by
// a run triggered for a time in the past. Nothing is decided by the point, so
// they are late and not lost: a worker begins at the front again when it is idle
// (at most every scanWhenIdle) and otherwise every scanWhenBusy. Retries and
// releases of whatever process are due after the moment in which they were
// written, so they appear ahead of the point or within the margin.
//
// Runs that had to wait for a slot are behind the point too. While there are some,
// every question first looks at the front, and a scan that found many of them is
// repeated the later the longer it was: a run in the middle of 10,000 that wait for
// one key is found within 10 seconds of its slot being free.
type partition struct {
	queue    string
	topic    string
	priority int
	key      string // the partition of RunsByDue

	// ask is when to ask for due runs before the next poll; zero: not. By this
	// process's clock. Guarded by worker.mu; everything below is the claimer's.
	ask time.Time

	resume storage.Resume // in the middle of the range: where to go on
	from   storage.Bound  // otherwise: where to begin
	idle   bool           // the last page reached the end of what was due
	again  bool           // since then it has been asked for once more
	full   time.Time      // when the last scan from the front began
	length int            // how many runs that scan has passed over since
	waits  bool           // among them some that no slot was free for
	front  time.Time      // when the front was last looked at for their sake
	grown  int            // the size of the next page, if the last held nothing to work on
}

const (
	scanMargin   = time.Second
	scanWhenIdle = time.Second
	scanWhenBusy = 10 * time.Second

	frontForSlots = 50 * time.Millisecond
)

func (l *Lane) newPartition(queue string, priority int) (*partition, error) {
	key, err := codec.DuePartition(l.env, queue, priority)
	if err != nil {
		return nil, err
	}
	return &partition{queue: queue, topic: l.topic(queue), priority: priority, key: key, idle: true}, nil
}

// askAt makes the claimer ask at t, unless it will anyway. The caller holds worker.mu.
func (p *partition) askAt(t time.Time) {
	if p.ask.IsZero() || t.Before(p.ask) {
		p.ask = t
	}
}

// query is the next page to ask for. It changes nothing, since the transaction
// that asks may run again or fail; see advance.
func (p *partition) query(now time.Time, limit int) (q storage.Query, kind scan) {
	q = storage.Query{
		Index:     storage.RunsByDue,
		Partition: p.key,
		From:      p.from,
		Until:     storage.ServerNow(),
		Limit:     limit,
		Resume:    p.resume,
		Lock:      storage.Exclusive,
	}
	since := now.Sub(p.full)
	switch {
	case since >= scanWhenBusy+p.rest() || p.idle && since >= scanWhenIdle+p.rest():
		q.From, q.Resume = storage.Bound{}, storage.Resume{}
		return q, wholeScan
	case p.waits && p.idle && now.Sub(p.front) >= frontForSlots:
		q.From, q.Resume = storage.Bound{}, storage.Resume{}
		return q, frontScan
	}
	return q, nextScan
}

// rest is how much longer than usual the next scan from the front can wait, since
// the last one was long and most of it was waiting for slots.
func (p *partition) rest() time.Duration {
	if !p.waits {
		return 0
	}
	return time.Duration(p.length) * time.Millisecond
}

// scan is a kind of page.
type scan uint8

const (
	nextScan  scan = iota // goes on where the last one ended
	wholeScan             // the first of a scan from the front
	frontScan             // a look at the front, because a slot may be free; the scan stays where it is
)

// scanned is what a committed claim saw of one partition.
type scanned struct {
	part                     *partition
	began                    time.Time // local, before the transaction
	kind                     scan
	resumed                  bool // the page went on where another one ended
	limit                    int
	resume                   storage.Resume
	time                     time.Time // the database's
	left                     time.Time // the due time of the first run that was seen and not taken; zero: none
	taken                    int       // runs that were claimed or given back with a delay
	started, opaque, unknown int
	blocked                  int   // runs that no slot was free for
	sizes                    []int // of the documents of the runs that can be read
}

// advance remembers where the next page begins. It reports whether more may be due now.
func (p *partition) advance(s *scanned) (more bool) {
	if s.kind == frontScan {
		p.front = s.began
		return true // for what the question was about
	}
	if s.kind == wholeScan {
		p.full, p.front, p.length, p.waits = s.began, s.began, 0, false
	}
	p.length += s.blocked
	p.waits = p.waits || s.blocked > 0
	p.grown = 0
	p.resume, p.from, p.idle = s.resume, storage.Bound{}, false
	switch {
	case !s.left.IsZero():
		p.resume, p.from = storage.Resume{}, atTime(s.left)
	case s.resume.IsZero():
		p.from, p.idle = atTime(s.time.Add(-scanMargin)), true
		// What became due behind the pages of this scan, while they were read, announced
		// itself in vain: it is asked for once more.
		p.again = s.resumed && !p.again
		return p.again
	case s.taken == 0:
		// A page full of what nobody here can take: step over the next ones faster.
		p.grown = min(max(2*s.limit, 100), maxBatch)
	}
	return !p.idle
}

// atTime is the bound at a time; no bound if the time cannot be encoded.
func atTime(t time.Time) storage.Bound {
	sort, err := keys.EncodeTime(t)
	if err != nil {
		return storage.Bound{}
	}
	return storage.At(sort)
}
