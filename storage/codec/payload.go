package codec

import "github.com/seed4391e180/runlane/internal/jsonscan"

// The documents of this file are any that passed [storage.Limits.CheckRecord],
// opaque ones and those of other codecs included, or that a database returned.
// Keys may be spelt with escapes and may occur twice; as in jsonb, the last counts.

// SplitPayload takes value.payload out of a document, if value is an object that
// has it. Payload is a part of doc, rest is new and otherwise has the bytes of doc.
// If there is nothing to take out, ok is false and rest is doc itself.
//
// A mark in the payload moves with it.
func SplitPayload(doc []byte) (rest, payload []byte, ok bool) { return split(doc, "value", "payload") }

// JoinPayload puts the payload back: joining what SplitPayload returned gives the
// value of the document. A nil payload is none, as SQL has NULL: then rest itself
// is the document. So it is if rest has no object at value, which no SplitPayload
// returns.
func JoinPayload(rest, payload []byte) []byte { return join(rest, payload, "value", "payload") }

// SplitEventPayload is SplitPayload for value.event.payload.
func SplitEventPayload(doc []byte) (rest, payload []byte, ok bool) {
	return split(doc, "value", "event", "payload")
}

// JoinEventPayload is JoinPayload for value.event.payload.
func JoinEventPayload(rest, payload []byte) []byte {
	return join(rest, payload, "value", "event", "payload")
}

func split(doc []byte, path ...string) (rest, cut []byte, ok bool) {
	start, end, ok := find(doc, path[:len(path)-1])
	if !ok {
		return doc, nil, false
	}
	rest = append(make([]byte, 0, len(doc)), doc[:start]...)
	rest, cut, ok = jsonscan.Cut(rest, doc[start:end], path[len(path)-1])
	if !ok {
		return doc, nil, false
	}
	return append(rest, doc[end:]...), cut, true
}

func join(rest, value []byte, path ...string) []byte {
	if value == nil {
		return rest
	}
	start, end, ok := find(rest, path[:len(path)-1])
	if !ok {
		return rest
	}
	name := path[len(path)-1]
	doc := append(make([]byte, 0, len(rest)+len(value)+len(name)+len(`,"":`)), rest[:start]...)
	doc, ok = jsonscan.Insert(doc, rest[start:end], name, value)
	if !ok {
		return rest
	}
	return append(doc, rest[end:]...)
}

// find tells where the value at a path stands. Of duplicates it is the last; the
// others may stay as they are, since they go on not to count.
func find(doc []byte, path []string) (start, end int, ok bool) {
	start, end = 0, len(doc)
	for _, name := range path {
		found, ok := jsonscan.Field(doc[start:end], name)
		if !ok {
			return 0, 0, false
		}
		start, end = start+found.Start, start+found.End
	}
	return start, end, true
}
