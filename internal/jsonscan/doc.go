// Package jsonscan reads JSON documents that are bound for a jsonb column of
// PostgreSQL, without building values of them.
//
// [Check] accepts what RFC 8259 and jsonb both accept and names the place of
// what they do not. encoding/json cannot do this: it turns invalid UTF-8 into
// U+FFFD, lets lone surrogates and \u0000 pass, and knows nothing of the range
// of numeric. No number passes through a float here.
//
// [Object], [Array] and [Field] walk a checked document without allocating;
// [Cut] and [Insert] take a member out of an object and put one in by splicing
// bytes; [Canonical] and [Printed] give the value that jsonb keeps.
//
// A document may hold two marks, values that a server fills in: the strings
// that consist of one raw byte 0x01 or 0x02. No JSON text contains them, since
// JSON escapes control characters, so they cannot be mistaken for data.
//
// Every function is total: any bytes give a result or an error, never a panic.
package jsonscan
