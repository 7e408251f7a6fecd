package jsonscan

// Cut appends the object raw to dst without the members that have the key
// name, all of them, however they are spelt, and returns the value of the last:
// the one that counted. The rest keeps its bytes, its order and its space.
//
// If there is no such member, or raw, which is a checked value, is not an
// object, then dst gets raw as it is, and ok is false. Value is a part of raw.
func Cut(dst, raw []byte, name string) (out, value []byte, ok bool) {
	out = dst
	from := 0     // raw before it is dealt with
	cut := -1     // where the members being cut begin, or -1
	kept := false // whether out has a member
	brace := members(raw, func(m Member) bool {
		if isKey(m.quoted, name) {
			value, ok = m.Value, true
			if cut < 0 {
				cut = m.begin
			}
			return true
		}
		if cut >= 0 {
			// This member takes the place of those cut before it, so that one
			// comma goes with each of them.
			out = append(out, raw[from:cut]...)
			from, cut = m.begin, -1
		}
		// The comma that follows stays only if a member that stays follows.
		out = append(out, raw[from:m.End]...)
		from, kept = m.End, true
		return true
	})
	if brace < 0 || !ok {
		return append(out[:len(dst)], raw...), nil, false
	}
	switch {
	case cut >= 0 && kept:
		from = brace
	case cut >= 0:
		out = append(out, raw[from:cut]...)
		from = brace
	}
	return append(out, raw[from:]...), value, true
}

// Insert appends the object raw to dst with the member name: value added at
// the end, where it counts even if raw has a member of that name already.
// Value is a checked value and is copied as it is.
//
// If raw, which is a checked value, is not an object, dst is returned as it
// was, and ok is false.
func Insert(dst, raw []byte, name string, value []byte) (out []byte, ok bool) {
	if KindOf(raw) != KindObject {
		return dst, false
	}
	end := lastBrace(raw)
	if end < 0 {
		return dst, false
	}
	dst = append(dst, raw[:end]...)
	if first := skipSpace(raw, skipSpace(raw, 0)+1); first != end {
		dst = append(dst, ',')
	}
	dst = AppendString(dst, name)
	dst = append(dst, ':')
	dst = append(dst, value...)
	return append(dst, raw[end:]...), true
}

// lastBrace returns where the object raw is closed, or -1.
func lastBrace(raw []byte) int {
	for i := len(raw) - 1; i > 0; i-- {
		switch raw[i] {
		case '}':
			return i
		case ' ', '\n', '\r', '\t':
		default:
			return -1
		}
	}
	return -1
}
