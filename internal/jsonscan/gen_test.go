package jsonscan_test

import (
	"fmt"
	"strconv"
	"strings"

	"pgregory.net/rapid"
)

// The generators write documents that Check accepts, in spellings that a
// printer would not choose: space everywhere, duplicate keys, needless escapes.

func genSpace(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", "", " ", "\n\t", " \r\n "}).Draw(t, "space")
}

func genNumber(t *rapid.T) string {
	number := strconv.FormatInt(rapid.OneOf(rapid.Int64Range(-12, 12), rapid.Int64()).Draw(t, "whole"), 10)
	if rapid.Bool().Draw(t, "negative zero") && number == "0" {
		number = "-0"
	}
	if rapid.Bool().Draw(t, "has fraction") {
		number += "." + rapid.StringMatching(`0{0,3}[0-9]{1,4}0{0,3}`).Draw(t, "fraction")
	}
	if rapid.Bool().Draw(t, "has exponent") {
		number += rapid.SampledFrom([]string{"e", "E", "e+", "E-", "e-"}).Draw(t, "e") + rapid.StringMatching(`0{0,2}[0-9]{1,2}`).Draw(t, "exponent")
	}
	return number
}

func genText(t *rapid.T) string {
	var b strings.Builder
	b.WriteByte('"')
	for range rapid.IntRange(0, 4).Draw(t, "length") {
		switch rapid.IntRange(0, 5).Draw(t, "piece") {
		case 0:
			b.WriteString(rapid.SampledFrom([]string{`\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`, `\u001f`, `\u007F`, `\u0001`}).Draw(t, "escape"))
		case 1:
			fmt.Fprintf(&b, `\u%04x`, rapid.SampledFrom([]rune("apx\u00e9\u4e16\uffff")).Draw(t, "rune"))
		case 2:
			b.WriteString(rapid.SampledFrom([]string{`\ud83d\ude00`, `\uD800\uDC00`, `\udbff\udfff`}).Draw(t, "pair"))
		default:
			b.WriteString(rapid.SampledFrom([]string{"a", "p", "é", "世", "\U0001F600", "\x7f", "{", "}", ",", ":", "[", " "}).Draw(t, "raw"))
		}
	}
	b.WriteByte('"')
	return b.String()
}

func genKey(t *rapid.T) string {
	if rapid.IntRange(0, 3).Draw(t, "odd") == 0 {
		return genText(t)
	}
	return rapid.SampledFrom([]string{`"a"`, `"\u0061"`, `"p"`, `"\u0070"`, `"payload"`, `"pay\u006coad"`, `"é"`, `"\u00E9"`, `""`, `"bb"`}).Draw(t, "key")
}

func genValue(t *rapid.T, depth int) string {
	kind := rapid.IntRange(0, 7).Draw(t, "kind")
	if depth == 0 {
		kind %= 4
	}
	switch kind {
	case 0:
		return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "literal")
	case 1, 2:
		return genNumber(t)
	case 3:
		return genText(t)
	case 4, 5:
		return string(genObject(t, depth))
	}
	items := make([]string, rapid.IntRange(0, 3).Draw(t, "items"))
	for i := range items {
		items[i] = genSpace(t) + genValue(t, depth-1) + genSpace(t)
	}
	return "[" + genSpace(t) + strings.Join(items, ",") + "]"
}

func genObject(t *rapid.T, depth int) []byte {
	members := make([]string, rapid.IntRange(0, 4).Draw(t, "members"))
	for i := range members {
		members[i] = genSpace(t) + genKey(t) + genSpace(t) + ":" + genSpace(t) + genValue(t, depth-1) + genSpace(t)
	}
	return []byte(genSpace(t) + "{" + genSpace(t) + strings.Join(members, ",") + "}" + genSpace(t))
}
