package codec_test

import (
	"errors"
	"testing"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

var sampleSingletonOwner = codec.SingletonOwner{Environment: "prod", Task: "emails.welcome", Key: "s:1", RunID: "order:123"}

func sampleIdempotencyOwners() map[string]codec.IdempotencyOwner {
	owner := codec.IdempotencyOwner{Environment: "prod", Task: "emails.welcome", Key: "i:1", RunID: "order:123"}
	expiring, later := owner, owner
	expiring.Expires = at(3600)
	later.Expires = run.AtCommit.Add(time.Hour)
	return map[string]codec.IdempotencyOwner{
		"idempotency_owner_active": owner, "idempotency_owner_expiring": expiring, "idempotency_owner_later": later,
	}
}

func mustIdempotencyOwner(t testing.TB, o codec.IdempotencyOwner) storage.Record {
	t.Helper()
	rec, err := codec.EncodeIdempotencyOwner(o)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func mustSingletonOwner(t testing.TB, o codec.SingletonOwner) storage.Record {
	t.Helper()
	rec, err := codec.EncodeSingletonOwner(o)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestOwnersAreRefusedWithTheFieldNamed(t *testing.T) {
	tests := []struct {
		field  string
		change func(o *codec.IdempotencyOwner)
		kind   error
	}{
		{"environment", func(o *codec.IdempotencyOwner) { o.Environment = "a:b" }, storage.ErrInvalidKey},
		{"task", func(o *codec.IdempotencyOwner) { o.Task = "" }, storage.ErrInvalidKey},
		{"idempotency_key", func(o *codec.IdempotencyOwner) { o.Key = "\x00" }, storage.ErrInvalidKey},
		{"run_id", func(o *codec.IdempotencyOwner) { o.RunID = "" }, storage.ErrInvalidKey},
		{"expires_at", func(o *codec.IdempotencyOwner) { o.Expires = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, storage.ErrInvalidDocument},
	}
	for _, tt := range tests {
		t.Run(tt.field, func(t *testing.T) {
			o := sampleIdempotencyOwners()["idempotency_owner_active"]
			tt.change(&o)
			_, err := codec.EncodeIdempotencyOwner(o)
			wantInputError(t, err, tt.kind, tt.field)
			if tt.field == "expires_at" {
				return
			}
			field := tt.field
			if field == "idempotency_key" {
				field = "singleton_key"
			}
			_, err = codec.EncodeSingletonOwner(codec.SingletonOwner{Environment: o.Environment, Task: o.Task, Key: o.Key, RunID: o.RunID})
			wantInputError(t, err, tt.kind, field)
		})
	}
}

func wantInputError(t *testing.T, err error, kind error, field string) {
	t.Helper()
	var refused *storage.InputError
	if !errors.As(err, &refused) || !errors.Is(err, kind) {
		t.Fatalf("got error %v, want %v", err, kind)
	}
	if refused.Field != field {
		t.Errorf("the error names %q, not %q: %v", refused.Field, field, err)
	}
}

func TestOpaqueOwners(t *testing.T) {
	idem := func(doc string) codec.Kind {
		rec := mustIdempotencyOwner(t, sampleIdempotencyOwners()["idempotency_owner_active"])
		rec.Document = []byte(doc)
		_, kind := codec.DecodeIdempotencyOwner(rec)
		return kind
	}
	single := func(doc string) codec.Kind {
		rec := mustSingletonOwner(t, sampleSingletonOwner)
		rec.Document = []byte(doc)
		_, kind := codec.DecodeSingletonOwner(rec)
		return kind
	}
	const (
		idemMembers   = `"environment":"prod","task":"emails.welcome","key":"i:1","run_id":"order:123"`
		singleMembers = `"environment":"prod","task":"emails.welcome","key":"s:1","run_id":"order:123"`
	)
	tests := []struct {
		name string
		got  codec.Kind
		want codec.Kind
	}{
		{"active", idem(`{"codec":"idempotency_owner","v":1,"value":{` + idemMembers + `,"expires_at":null}}`), codec.Canonical},
		{"without an expiry", idem(`{"codec":"idempotency_owner","v":1,"value":{` + idemMembers + `}}`), codec.Opaque},
		{"with an expiry that is none", idem(`{"codec":"idempotency_owner","v":1,"value":{` + idemMembers + `,"expires_at":""}}`), codec.Opaque},
		{"with more", idem(`{"codec":"idempotency_owner","v":1,"value":{` + idemMembers + `,"expires_at":null,"id":"x"}}`), codec.Opaque},
		{"a tombstone", idem(`{"codec":"idempotency_owner","v":1,"tombstone":true,"value":{` + idemMembers + `,"expires_at":null}}`), codec.Opaque},
		{"another codec", idem(`{"codec":"singleton_owner","v":1,"value":{` + idemMembers + `}}`), codec.Opaque},
		{"another key", idem(`{"codec":"idempotency_owner","v":1,"value":{` + singleMembers + `,"expires_at":null}}`), codec.Opaque},
		{"without a run", idem(`{"codec":"idempotency_owner","v":1,"value":{"environment":"prod","task":"emails.welcome","key":"i:1","expires_at":null}}`), codec.Opaque},
		{"a singleton owner", single(`{"codec":"singleton_owner","v":1,"value":{` + singleMembers + `}}`), codec.Canonical},
		{"a singleton owner with an expiry", single(`{"codec":"singleton_owner","v":1,"value":{` + singleMembers + `,"expires_at":null}}`), codec.Opaque},
		{"a singleton owner of another key", single(`{"codec":"singleton_owner","v":1,"value":{` + idemMembers + `}}`), codec.Opaque},
		{"a singleton owner without a run", single(`{"codec":"singleton_owner","v":1,"value":{"environment":"prod","task":"emails.welcome","key":"s:1"}}`), codec.Opaque},
		{"a singleton tombstone", single(`{"codec":"singleton_owner","v":1,"tombstone":true,"value":{` + singleMembers + `}}`), codec.Opaque},
		{"another version", single(`{"codec":"singleton_owner","v":2,"value":{` + singleMembers + `}}`), codec.Opaque},
		{"a text that is none", single(`{"codec":"singleton_owner","v":1,"value":{"environment":"prod","task":"emails.welcome","key":"s:1","run_id":7}}`), codec.Opaque},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, tt.got, tt.want)
		}
	}
}
