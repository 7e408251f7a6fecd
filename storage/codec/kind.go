package codec

// Kind says what a document is to this version of the codec.
type Kind uint8

const (
	// Opaque is a document that this version does not know. It is kept as it is and
	// takes part in nothing.
	Opaque Kind = iota
	// Canonical is a document of this version, whole and legal, under the key that
	// its identity makes.
	Canonical
	// Tombstone is what stands in place of a run that is being pruned. It has the
	// run's identity and nothing else.
	Tombstone
)

// String is the kind's name.
func (k Kind) String() string {
	switch k {
	case Canonical:
		return "canonical"
	case Tombstone:
		return "tombstone"
	}
	return "opaque"
}
