// Package keys encodes tuples of strings, signed integers, times and UUIDs as
// text whose byte order is the order of the tuples.
//
// A record's partition and id, and the partition and sort value of an index
// entry, are such texts. PostgreSQL compares them under COLLATE "C", which is
// byte order, so a range scan over the text is a range scan over the tuples.
//
//	id, err := keys.New().String("email").String("order:123").Text()
//
// The encoding is
//
//   - order-preserving: element by element, negative integers included, and a
//     tuple that is a prefix of another sorts before it. Elements of different
//     types order as integer < string < UUID < time;
//   - injective and canonical: one tuple has one text, and [Decode] accepts no
//     other spelling of it;
//   - self-delimiting: [First] cuts off the first element, and joining two
//     encodings is the encoding of the joined tuple;
//   - valid UTF-8 without NUL, and printable wherever its strings are.
//
// [SQLInt] and [SQLTime] give the same encoding as SQL expressions, for values
// that only the server knows. KEYS.md states the format, why it is so, and the
// golden vectors.
package keys
