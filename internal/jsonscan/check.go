package jsonscan

// Limits bounds a document. The zero value is the defaults, without marks.
type Limits struct {
	// MaxBytes bounds the document as written; 0 means [DefaultMaxBytes].
	// Numbers written out in full, as PostgreSQL prints 1e1000, may add as
	// much again: without that bound a document could be stored that is too
	// large to be read back.
	MaxBytes int
	// MaxDepth bounds how many arrays and objects stand inside one another; 0
	// means [DefaultMaxDepth].
	MaxDepth int
	// Marks allows the two marks, as values only.
	Marks bool
}

// The defaults of [Limits].
const (
	DefaultMaxBytes = 1 << 20
	DefaultMaxDepth = 512
)

// The two marks, as they stand in a document.
const (
	MarkCommitTime      = "\"\x01\""
	MarkCommitTimeLater = "\"\x02\""
)

// Info tells which marks a document holds, and how it will grow.
type Info struct {
	CommitTime bool
	Later      bool
	// Growth is by how many bytes numbers grow when they are written out, as PostgreSQL
	// prints 1e1000.
	Growth int
}

// Check accepts a document that is one JSON value by RFC 8259 and that jsonb
// of PostgreSQL stores: valid UTF-8; strings and keys without raw control
// characters, \u0000 or half surrogate pairs; numbers within the range of
// numeric; within limits. Any other document is an [*Error].
//
// Duplicate keys are accepted, as jsonb accepts them.
func Check(doc []byte, limits Limits) (Info, error) {
	if limits.MaxBytes <= 0 {
		limits.MaxBytes = DefaultMaxBytes
	}
	if limits.MaxDepth <= 0 {
		limits.MaxDepth = DefaultMaxDepth
	}
	if len(doc) > limits.MaxBytes {
		return Info{}, &Error{Offset: limits.MaxBytes, Reason: ReasonSize}
	}
	c := checker{doc: doc, depth: limits.MaxDepth, marks: limits.Marks, room: limits.MaxBytes}
	if err := c.document(); err != nil {
		return Info{}, err
	}
	return c.info, nil
}

// checker is one pass over a document. Its methods advance pos and return
// false after fail.
type checker struct {
	doc    []byte
	pos    int
	depth  int // how many more levels may be opened
	room   int // how many more bytes written-out numbers may add
	marks  bool
	info   Info
	reason Reason
	at     int
}

// document reads the one value that the document is.
func (c *checker) document() error {
	c.space()
	if c.value() {
		c.space()
		if c.pos == len(c.doc) {
			return nil
		}
		c.fail(ReasonSyntax, c.pos)
	}
	return &Error{Path: pathTo(c.doc, c.at), Offset: c.at, Reason: c.reason}
}

func (c *checker) fail(reason Reason, at int) bool {
	c.reason, c.at = reason, at
	return false
}

func (c *checker) space() { c.pos = skipSpace(c.doc, c.pos) }

func skipSpace(doc []byte, pos int) int {
	for pos < len(doc) {
		switch doc[pos] {
		case ' ', '\n', '\r', '\t':
			pos++
		default:
			return pos
		}
	}
	return pos
}

// next returns the byte at pos, or 0, which is never legal between tokens.
func (c *checker) next() byte {
	if c.pos < len(c.doc) {
		return c.doc[c.pos]
	}
	return 0
}

// value reads one value that begins at pos.
func (c *checker) value() bool {
	switch b := c.next(); b {
	case '{':
		return c.object()
	case '[':
		return c.array()
	case '"':
		return c.text(true)
	case 't':
		return c.literal("true")
	case 'f':
		return c.literal("false")
	case 'n':
		return c.literal("null")
	default:
		if b == '-' || b >= '0' && b <= '9' {
			return c.number()
		}
		return c.fail(ReasonSyntax, c.pos)
	}
}

// enter opens an array or object.
func (c *checker) enter() bool {
	if c.depth == 0 {
		return c.fail(ReasonDepth, c.pos)
	}
	c.depth--
	c.pos++
	c.space()
	return true
}

func (c *checker) leave() bool {
	c.depth++
	c.pos++
	return true
}

func (c *checker) object() bool {
	if !c.enter() {
		return false
	}
	if c.next() == '}' {
		return c.leave()
	}
	for {
		if c.next() != '"' {
			return c.fail(ReasonSyntax, c.pos)
		}
		if !c.text(false) {
			return false
		}
		c.space()
		if c.next() != ':' {
			return c.fail(ReasonSyntax, c.pos)
		}
		c.pos++
		c.space()
		if !c.value() {
			return false
		}
		c.space()
		switch c.next() {
		case ',':
			c.pos++
			c.space()
		case '}':
			return c.leave()
		default:
			return c.fail(ReasonSyntax, c.pos)
		}
	}
}

func (c *checker) array() bool {
	if !c.enter() {
		return false
	}
	if c.next() == ']' {
		return c.leave()
	}
	for {
		if !c.value() {
			return false
		}
		c.space()
		switch c.next() {
		case ',':
			c.pos++
			c.space()
		case ']':
			return c.leave()
		default:
			return c.fail(ReasonSyntax, c.pos)
		}
	}
}

func (c *checker) literal(word string) bool {
	end := c.pos + len(word)
	if end > len(c.doc) || string(c.doc[c.pos:end]) != word {
		return c.fail(ReasonSyntax, c.pos)
	}
	c.pos = end
	return true
}

// text reads a string; marks are allowed where a value stands.
func (c *checker) text(isValue bool) bool {
	if c.marks && isValue {
		switch mark := c.markAt(); mark {
		case MarkCommitTime:
			c.info.CommitTime = true
			c.pos += len(mark)
			return true
		case MarkCommitTimeLater:
			c.info.Later = true
			c.pos += len(mark)
			return true
		}
	}
	end, reason := scanString(c.doc, c.pos)
	if reason != "" {
		return c.fail(reason, end)
	}
	c.pos = end
	return true
}

// markAt returns the mark that stands at pos, or "".
func (c *checker) markAt() string {
	if len(c.doc)-c.pos < len(MarkCommitTime) {
		return ""
	}
	switch string(c.doc[c.pos : c.pos+len(MarkCommitTime)]) {
	case MarkCommitTime:
		return MarkCommitTime
	case MarkCommitTimeLater:
		return MarkCommitTimeLater
	}
	return ""
}

func (c *checker) number() bool {
	n, end, reason := scanNumber(c.doc, c.pos)
	if reason != "" {
		return c.fail(reason, end)
	}
	// Only an exponent can make the printed number longer than the written one.
	if n.exponent != 0 {
		if more := n.printedSize() - (end - c.pos); more > 0 {
			if c.room < more {
				return c.fail(ReasonExpansion, c.pos)
			}
			c.room -= more
			c.info.Growth += more
		}
	}
	c.pos = end
	return true
}
