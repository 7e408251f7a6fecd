package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/storage"
)

// session is what one transaction of a program must see.
type session struct {
	world  *world
	keys   [worldKeys]keySession
	items  []string // appended
	sealed bool
}

type keySession struct {
	seen     bool // read present or absent, by a dependency
	written  bool // a write was staged, if only to be taken back
	staged   content
	readOnly bool
	blind    bool // the first write was a Create of what had not been read
	refused  bool // a Create was refused although nothing had been read
}

func newSession(w *world) *session { return &session{world: w} }

// current is the record as the transaction sees it.
func (m *session) current(key int) content {
	k := &m.keys[key]
	switch {
	case k.written:
		return k.staged
	default:
		return m.world.committed[key]
	}
}

func (m *session) known(key int) bool { return m.keys[key].seen || m.keys[key].written }

// predict returns what a step may see. Where the contract leaves a choice there is
// more than one answer, and the one that was seen decides how things go on.
func (m *session) predict(s step, saw string) []string {
	key := s.keys[0]
	switch s.do {
	case "get", "getReadOnly", "assume", "assumeOld", "assumeAbsent":
		return m.read(s.keys[:1], s.do == "getReadOnly", saw)
	case "getMany":
		return m.read(s.keys, false, saw)
	case "peek":
		var all []string
		for _, key := range s.keys {
			all = append(all, m.world.committed[key].String())
		}
		return []string{strings.Join(all, " ")}
	case "create":
		return m.create(key, content{s.n, s.sort}, saw)
	case "replace":
		return m.overwrite(key, content{s.n, s.sort}, saw)
	case "delete":
		return m.overwrite(key, content{}, saw)
	case "query", "queryExclusive":
		return []string{m.query(s)}
	case "now":
		m.sealed = true
	case "append":
		m.items = append(m.items, s.items()...)
	}
	return []string{"ok"}
}

func (m *session) read(keys []int, readOnly bool, saw string) []string {
	for _, key := range keys {
		// Being refused as present may count as having been read.
		if m.sealed && !m.known(key) && (!m.keys[key].refused || saw == "sealed") {
			return []string{"sealed"}
		}
	}
	var all []string
	for _, key := range keys {
		k := &m.keys[key]
		k.seen = true
		k.readOnly = k.readOnly || readOnly && !k.written
		all = append(all, m.current(key).String())
	}
	return []string{strings.Join(all, " ")}
}

func (m *session) create(key int, c content, saw string) []string {
	k := &m.keys[key]
	switch {
	case k.readOnly && m.current(key).n != 0:
		return []string{"read only", "exists"}
	case k.readOnly:
		return []string{"read only"}
	case m.known(key) && m.current(key).n != 0:
		return []string{"exists"}
	case !m.known(key) && m.world.committed[key].n != 0 && saw == "exists":
		// A replay knows that the key is present.
		k.refused = true
		return []string{"exists"}
	}
	if !k.seen && !k.written {
		k.blind = true
	}
	k.written, k.staged = true, c
	return []string{"ok"}
}

// overwrite is Replace, or Delete with no content.
func (m *session) overwrite(key int, c content, saw string) []string {
	k := &m.keys[key]
	switch {
	case k.readOnly && m.current(key).n == 0:
		return []string{"read only", "not read"}
	case k.readOnly:
		return []string{"read only"}
	case !m.known(key) && k.refused && saw == "ok":
		// As above.
	case !m.known(key), m.current(key).n == 0:
		return []string{"not read"}
	}
	k.written, k.staged = true, c
	return []string{"ok"}
}

func (m *session) query(s step) string {
	var all []string
	for _, at := range m.world.indexed(s.down) {
		if len(all) == s.limit {
			break
		}
		if s.do == "queryExclusive" {
			m.keys[at].seen = true
		}
		all = append(all, m.world.committed[at].String())
	}
	return strings.Join(all, " ")
}

// collides reports whether the transaction expects a record to be absent that is not.
func (m *session) collides() bool {
	for i, k := range m.keys {
		if k.blind && m.world.committed[i].n != 0 {
			return true
		}
	}
	return false
}

// apply carries the staged writes over, and checks what the commit says of them.
func (m *session) apply(t *rapid.T, commit storage.Commit) {
	versions := 0
	for i, k := range m.keys {
		if !k.written {
			continue
		}
		m.world.committed[i] = k.staged
		if k.staged.n != 0 {
			versions++
			if commit.Versions[m.world.keys[i]].IsZero() {
				t.Fatalf("the commit has no version of %s", m.world.keys[i])
			}
		}
	}
	if len(commit.Versions) != versions {
		t.Fatalf("the commit has %d versions instead of %d", len(commit.Versions), versions)
	}
	var appended []storage.Appended
	if len(m.items) > 0 {
		first := int64(len(m.world.stream)) + 1
		m.world.stream = append(m.world.stream, m.items...)
		appended = append(appended, storage.Appended{Head: m.world.head(), First: first, Last: int64(len(m.world.stream))})
	}
	if !slices.Equal(commit.Appended, appended) {
		t.Fatalf("the commit appended %+v instead of %+v", commit.Appended, appended)
	}
}

// nameOf is a short word for what a method returned.
func nameOf(err error) string {
	for name, kind := range map[string]error{
		"exists": storage.ErrRecordExists, "not read": storage.ErrRecordNotRead, "read only": storage.ErrReadOnlyKey, "sealed": storage.ErrSealed,
		"conflict": storage.ErrConflict,
	} {
		if errors.Is(err, kind) {
			return name
		}
	}
	if err != nil {
		return fmt.Sprint("unexpected: ", err)
	}
	return "ok"
}
