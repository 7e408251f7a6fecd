package jsonscan

import (
	"bytes"
	"slices"
)

// maxCanonicalGrowth bounds what written-out numbers may add to the result of
// [Canonical] and [Printed]. It is far above what [Check] lets through by
// default, and a document that PostgreSQL printed grows by nothing.
const maxCanonicalGrowth = 16 << 20

// Canonical returns the value that jsonb keeps of doc, in one spelling without
// space: of duplicate keys the last, keys by length and then by bytes, numbers
// as numeric prints them (1e2 is 100, 0.1000 stays, -0 is 0), strings with the
// fewest escapes. Two documents have one Canonical exactly if jsonb holds one
// text for both. Marks stay as they are.
//
// A document that [Check] refuses is an [*Error], but for its size: doc may be
// of any size, and written-out numbers may add 16 MiB.
func Canonical(doc []byte) ([]byte, error) { return canonical(doc, ",", ":") }

// Printed is [Canonical] with the space that jsonb prints after commas and
// colons: byte for byte what `doc::jsonb::text` is.
func Printed(doc []byte) ([]byte, error) { return canonical(doc, ", ", ": ") }

func canonical(doc []byte, comma, colon string) ([]byte, error) {
	c := checker{doc: doc, depth: DefaultMaxDepth, marks: true, room: maxCanonicalGrowth}
	if err := c.document(); err != nil {
		return nil, err
	}
	p := printer{doc: doc, comma: comma, colon: colon, out: make([]byte, 0, len(doc))}
	p.space()
	p.value()
	return p.out, nil
}

// printer is one pass over a checked document. A member is printed where it is
// met; an object whose members are not in order is put in order when it ends,
// so that nothing is read twice.
type printer struct {
	doc          []byte
	pos          int
	comma, colon string
	out          []byte
	stack        []printed // the members of the objects that are open
	scratch      []byte
}

// printed is one member in out.
type printed struct {
	key        []byte
	start, end int
}

func (p *printer) space() { p.pos = skipSpace(p.doc, p.pos) }

func (p *printer) value() {
	switch p.doc[p.pos] {
	case '{':
		p.object()
	case '[':
		p.array()
	case '"':
		p.text()
	case 't', 'f', 'n':
		end := skipValue(p.doc, p.pos)
		p.out = append(p.out, p.doc[p.pos:end]...)
		p.pos = end
	default:
		n, end, _ := scanNumber(p.doc, p.pos)
		p.out = n.appendPrinted(p.out)
		p.pos = end
	}
}

// text prints a string and returns its content.
func (p *printer) text() (content []byte) {
	end := skipString(p.doc, p.pos)
	raw := p.doc[p.pos:end]
	p.pos = end
	content = raw[1 : len(raw)-1]
	if bytes.IndexByte(content, '\\') < 0 {
		// Nothing to resolve, and nothing that must be escaped either; a mark
		// passes here too.
		p.out = append(p.out, raw...)
		return content
	}
	content = appendUnescaped(make([]byte, 0, len(content)), content)
	p.out = append(p.out, '"')
	p.out = appendEscaped(p.out, content)
	p.out = append(p.out, '"')
	return content
}

func (p *printer) array() {
	p.pos++
	p.out = append(p.out, '[')
	p.space()
	for p.doc[p.pos] != ']' {
		p.value()
		p.space()
		if p.doc[p.pos] == ',' {
			p.out = append(p.out, p.comma...)
			p.pos++
			p.space()
		}
	}
	p.out = append(p.out, ']')
	p.pos++
}

func (p *printer) object() {
	p.pos++
	p.out = append(p.out, '{')
	p.space()
	base, sorted := len(p.stack), true
	for p.doc[p.pos] != '}' {
		if len(p.stack) > base {
			p.out = append(p.out, p.comma...)
		}
		m := printed{start: len(p.out)}
		m.key = p.text()
		p.space()
		p.pos++ // the colon
		p.space()
		p.out = append(p.out, p.colon...)
		p.value()
		m.end = len(p.out)
		if last := len(p.stack) - 1; last >= base && compareKeys(p.stack[last].key, m.key) >= 0 {
			sorted = false
		}
		p.stack = append(p.stack, m)
		p.space()
		if p.doc[p.pos] == ',' {
			p.pos++
			p.space()
		}
	}
	if !sorted {
		p.reorder(p.stack[base:])
	}
	p.stack = p.stack[:base]
	p.out = append(p.out, '}')
	p.pos++
}

// reorder puts the members of an object in order and drops all but the last of
// each key.
func (p *printer) reorder(members []printed) {
	start := members[0].start
	slices.SortStableFunc(members, func(a, b printed) int { return compareKeys(a.key, b.key) })
	p.scratch = p.scratch[:0]
	for i, m := range members {
		if i+1 < len(members) && bytes.Equal(m.key, members[i+1].key) {
			continue
		}
		if len(p.scratch) > 0 {
			p.scratch = append(p.scratch, p.comma...)
		}
		p.scratch = append(p.scratch, p.out[m.start:m.end]...)
	}
	p.out = append(p.out[:start], p.scratch...)
}

// compareKeys is the order of keys in jsonb.
func compareKeys(a, b []byte) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return bytes.Compare(a, b)
}
