package storage

import "time"

// Limits bounds what one call may ask for. They are checked before anything is
// sent to a database.
type Limits struct {
	MaxDocument      int           // bytes of one document, without insignificant space: ErrTooLarge
	MaxDepth         int           // nesting of one document: ErrInvalidDocument
	DefaultPage      int           // records of a page when the query says 0
	MaxPage          int           // records of a page: ErrInvalidQuery
	MaxMutations     int           // staged records of a transaction: ErrTooMany
	MaxKeys          int           // keys that a transaction locks: ErrTooMany
	MaxTransaction   int           // bytes of all documents and items of a transaction: ErrTooLarge
	MaxItems         int           // items that a transaction appends: ErrTooMany
	MaxTopic         int           // bytes of a wake topic: ErrTooLarge
	MaxTopics        int           // distinct wake topics of a transaction: ErrTooMany
	MaxLater         time.Duration // of Record.Later: ErrInvalidDocument
	MaxKeyPart       int           // bytes of an encoded partition, sort value or id: ErrTooLarge
	MaxKeyTotal      int           // bytes of partition, sort value and id together: ErrTooLarge
	MaxFilterChoices int           // values of one operator filter: ErrInvalidQuery
	DefaultCount     int           // runs of each status that are counted when the count says 0
	MaxCount         int           // runs of each status that are counted: ErrInvalidQuery
}

// DefaultLimits returns the limits of every driver.
func DefaultLimits() Limits {
	return Limits{
		MaxDocument:      1 << 20,
		MaxDepth:         512,
		DefaultPage:      50,
		MaxPage:          500,
		MaxMutations:     2500,
		MaxKeys:          2500,
		MaxTransaction:   16 << 20,
		MaxItems:         1000,
		MaxTopic:         512,
		MaxTopics:        100,
		MaxLater:         100 * 365 * 24 * time.Hour,
		MaxKeyPart:       1024,
		MaxKeyTotal:      2600,
		MaxFilterChoices: 100,
		DefaultCount:     10_000,
		MaxCount:         100_000,
	}
}
