package hostile_test

import "strings"

// texts are what a statement, an array, a format, a key or a mark could take for
// something else than text. All are legal in every text of a run but names.
var texts = []string{
	"$1", "$$", "$tag$", "'; --", "';\n--", `a"b`, "a'b", `%_\`, "%", "_", `E'\\x01'`, `E'\x01'`, `U&'\0061'`,
	"{table}", "{group} {after}", "{payload}", `\`, `\\`, `\'`, `\x00`, `\u0000`, `\n`, `"`, `""`, `'`, `''`,
	"NULL", "null", "Null", "NaN", "infinity", "-infinity", "now", "true", "{}", "{a,b}", `{"a":1}`, `{NULL}`, "[1:1]={x}", ",", "a,b", "(", ")", "(),",
	" ", "  a  ", "\t", "\n", "\r\n", "\v", "\f", "a ", " a", "\u00a0", "\u2003", "\u3000",
	"\x01", "\x02", "\x1b[31m", "\x7f", "\u0085", "\u2028", "\ufeff", "\ufffd", "\uffff", "\U0010ffff", "\ue000",
	"\u200b", "a\u200d", "\u202eabc", "שלום", "سلام", "e\u0301", "\u00e9", "ß", "ẞ", "İ", "ı", "ﬁ", "中文", "👩\u200d👩\u200d👧", "😀",
	"?", "@p1", ":name", "::text", "/* */", "-- \n", "%s %d %!v", "%%", "#", "#8000000000000000", "@80064b0a1d2f0000", "!", "$a!", "a:b", "a;b",
	", ", ") already exists.", "=(", "undefined", "../..", "<b>&amp;</b>", "0", "-1", "1e400", "é€😀",
	strings.Repeat("é", 127) + "x", strings.Repeat("€", 85), strings.Repeat("😀", 63) + "abc",
}
