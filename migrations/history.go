package migrations

import (
	"fmt"

	"ariga.io/atlas/sql/migrate"
)

// pending proves that the revisions are a complete, unchanged prefix of the
// directory and returns the rest of it. If the first file of the rest builds an
// index, it may have been started before; then its statement did not end, or nobody
// wrote down that it did.
//
// Atlas itself continues an incomplete file and accepts the other deviations; a
// history that this package cannot prove is refused instead. Hashes are cumulative,
// so an equal hash proves every byte up to the end of its file.
func (d directory) pending(revisions []revision, schema string) (rest directory, started bool, err error) {
	for i, rev := range revisions {
		if i == len(revisions)-1 && d.started(i, rev) {
			return d[i:], true, nil
		}
		if err := d.check(i, rev, schema); err != nil {
			return nil, false, err
		}
	}
	return d[len(revisions):], false, nil
}

// started says that the revision is that of a file at i that builds an index and
// was begun.
func (d directory) started(i int, rev revision) bool {
	return i < len(d) && d[i].index != "" && rev.version == d[i].Version && rev.hash == d[i].hash &&
		rev.kind == int64(migrate.RevisionTypeExecute) && rev.applied == 0
}

func (d directory) check(i int, rev revision, schema string) error {
	refuse := func(kind error, file, detail, mend string) error {
		return &Error{Kind: kind, Schema: schema, File: file, Detail: detail, Mend: mend}
	}
	at := d.index(rev.version)
	name := rev.version + "_" + rev.description + ".sql"
	switch {
	case at < 0 && (len(d) == 0 || rev.version > d[len(d)-1].Version):
		return refuse(ErrNewer, name, "the database has this file, the directory ends before it",
			"deploy a build that has the file; to go back, restore a snapshot of the database")
	case at < 0:
		return refuse(ErrMissing, name, "the database has this file, the directory does not",
			"restore the file and atlas.sum as they were released")
	case at != i:
		return refuse(ErrReordered, d[i].Name, "it was never applied, but "+d[at].Name+", which comes after it, was",
			"give the file a version after the last one that was applied, then rehash the directory")
	case rev.kind != int64(migrate.RevisionTypeExecute):
		return refuse(ErrIncomplete, d[i].Name, "the ledger says "+migrate.RevisionType(rev.kind).String()+", not that its statements ran",
			"restore a snapshot of the database from before the row was written")
	case rev.applied != rev.total || rev.failure != "":
		detail := fmt.Sprintf("%d of %d statements were applied", rev.applied, rev.total)
		if rev.failure != "" {
			detail += ", then: " + rev.failure
		}
		return refuse(ErrIncomplete, d[i].Name, detail,
			"finish it with the tool that began it, or restore a snapshot of the database from before")
	case rev.hash != d[i].hash:
		return refuse(ErrChanged, d[i].Name, "the file, or one before it, is not what was applied",
			"restore the file and atlas.sum as they were released; put the change into a new migration")
	}
	return nil
}

// index returns where the version stands in the directory, or -1.
func (d directory) index(version string) int {
	for i := range d {
		if d[i].Version == version {
			return i
		}
	}
	return -1
}
