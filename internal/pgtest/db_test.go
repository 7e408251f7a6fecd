package pgtest

import "testing"

func TestQuick(t *testing.T) {
	db := New(t)
	var n int
	if err := db.Pool(t).QueryRow(t.Context(), "select count(*) from pg_tables where schemaname = 'runlane'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	t.Log(n, db.URL)
}
func BenchmarkNew(b *testing.B) {
	New(b)
	for b.Loop() {
		s, _ := sharedServer()
		name, err := s.create(b.Context(), false, DefaultSchema)
		if err != nil {
			b.Fatal(err)
		}
		_ = name
	}
}
func BenchmarkDrop(b *testing.B) {
	New(b)
	s, _ := sharedServer()
	for b.Loop() {
		b.StopTimer()
		name, err := s.create(b.Context(), false, DefaultSchema)
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		s.drop(b.Context(), name)
	}
}
func BenchmarkConnect(b *testing.B) {
	s, _ := sharedServer()
	for b.Loop() {
		if err := s.exec(b.Context(), ""); err != nil {
			b.Fatal(err)
		}
	}
}
