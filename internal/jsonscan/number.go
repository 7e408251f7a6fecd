package jsonscan

// The range of numeric in PostgreSQL, as its input function enforces it. A
// number is refused if its first digit other than zero has a place beyond
// 10^131071, if it has more than 16383 digits after the point once the
// exponent is applied (zeros count, also those of zero itself), or if the
// exponent as such is absurd, whatever the digits are.
const (
	maxPlace    = 131071
	maxScale    = 16383
	maxExponent = 1<<30 - 2
)

// number describes a number as written.
type number struct {
	negative bool
	whole    []byte // digits before the point
	fraction []byte // digits after the point
	exponent int
	zero     bool
	raw      []byte // the whole number
}

// scanNumber reads the number at pos. If reason is set, end is where it went
// wrong. The cost is that of the bytes read, whatever the exponent says.
func scanNumber(doc []byte, pos int) (n number, end int, reason Reason) {
	start, i := pos, pos
	if i < len(doc) && doc[i] == '-' {
		n.negative = true
		i++
	}
	from := i
	i = skipDigits(doc, i)
	n.whole = doc[from:i]
	if len(n.whole) == 0 {
		return n, i, ReasonSyntax
	}
	if len(n.whole) > 1 && n.whole[0] == '0' {
		return n, from + 1, ReasonSyntax
	}
	if i < len(doc) && doc[i] == '.' {
		from = i + 1
		i = skipDigits(doc, from)
		n.fraction = doc[from:i]
		if len(n.fraction) == 0 {
			return n, i, ReasonSyntax
		}
	}
	if i < len(doc) && (doc[i] == 'e' || doc[i] == 'E') {
		var digits int
		n.exponent, digits, i = scanExponent(doc, i+1)
		if digits == 0 {
			return n, i, ReasonSyntax
		}
	}
	place, zero := n.place()
	n.zero = zero
	if n.exponent > maxExponent || n.exponent < -maxExponent || n.scale() > maxScale || !zero && place > maxPlace {
		return n, start, ReasonNumber
	}
	n.raw = doc[start:i]
	return n, i, ""
}

func skipDigits(doc []byte, i int) int {
	for i < len(doc) && doc[i]-'0' <= 9 {
		i++
	}
	return i
}

// scanExponent reads a sign and digits, and stops counting where the number is
// out of range anyway.
func scanExponent(doc []byte, i int) (exponent, digits, end int) {
	negative := false
	if i < len(doc) && (doc[i] == '+' || doc[i] == '-') {
		negative = doc[i] == '-'
		i++
	}
	for ; i < len(doc) && doc[i]-'0' <= 9; i++ {
		digits++
		if exponent <= maxExponent/10 {
			exponent = exponent*10 + int(doc[i]-'0')
		} else {
			exponent = maxExponent + 1
		}
	}
	if negative {
		exponent = -exponent
	}
	return exponent, digits, i
}

// place returns the power of ten of the first digit that is not zero.
func (n *number) place() (place int, zero bool) {
	if n.whole[0] != '0' {
		return len(n.whole) - 1 + n.exponent, false
	}
	for i, d := range n.fraction {
		if d != '0' {
			return -1 - i + n.exponent, false
		}
	}
	return 0, true
}

// scale returns the number of digits after the point when printed.
func (n *number) scale() int { return max(0, len(n.fraction)-n.exponent) }

// printedSize returns the length of what appendPrinted appends.
func (n *number) printedSize() int {
	place, zero := n.place()
	size := 1
	if !zero {
		size = max(0, place) + 1
		if n.negative {
			size++
		}
	}
	if scale := n.scale(); scale > 0 {
		size += 1 + scale
	}
	return size
}

// appendPrinted appends the number as numeric prints it: no exponent, no sign
// on zero, and as many digits after the point as were written, moved by the
// exponent.
func (n *number) appendPrinted(dst []byte) []byte {
	size := n.printedSize()
	if n.exponent == 0 && size == len(n.raw) {
		return append(dst, n.raw...)
	}
	if n.negative && !n.zero {
		dst = append(dst, '-')
	}
	digits := len(n.whole) + len(n.fraction)
	point := len(n.whole) + n.exponent // where the point stands among the digits
	if n.zero {
		point = min(point, len(n.whole)) // 0e9 has one digit, not ten
	}
	leading := true
	for i := 0; i < point; i++ {
		d := byte('0')
		if i < digits {
			d = n.digit(i)
		}
		if leading && d == '0' {
			continue
		}
		leading = false
		dst = append(dst, d)
	}
	if leading {
		dst = append(dst, '0')
	}
	scale := n.scale()
	if scale == 0 {
		return dst
	}
	dst = append(dst, '.')
	for i := len(n.whole) + n.exponent; scale > 0; i, scale = i+1, scale-1 {
		if i < 0 {
			dst = append(dst, '0')
		} else {
			dst = append(dst, n.digit(i))
		}
	}
	return dst
}

func (n *number) digit(i int) byte {
	if i < len(n.whole) {
		return n.whole[i]
	}
	return n.fraction[i-len(n.whole)]
}
