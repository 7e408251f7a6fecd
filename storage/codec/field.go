package codec

// field is a member of one of the objects that documents are made of. Encoders and
// decoders know members by these values only, so each name is spelt once.
type field uint8

const (
	fieldNone field = iota

	fieldCodec
	fieldV
	fieldTombstone
	fieldValue

	fieldEnvironment
	fieldID
	fieldRunID
	fieldTask
	fieldQueue
	fieldPriority
	fieldStatus
	fieldSequence
	fieldMaxAttempts
	fieldAttempts
	fieldFailures
	fieldRetries
	fieldReleases

	fieldDue
	fieldCreated
	fieldUpdated
	fieldFinished
	fieldRunAt
	fieldAt
	fieldExpires

	fieldLeaseToken
	fieldLeaseWorker
	fieldLeaseAttempt
	fieldLeaseExpires
	fieldLeaseDuration
	fieldLeaseQueueSlot
	fieldLeaseKeySlot

	fieldSourceType
	fieldSourceRun
	fieldSchedule
	fieldIdempotencyKey
	fieldIdempotencyTTL
	fieldSingletonKey
	fieldConcurrencyKey
	fieldWaitingFor
	fieldTimeout
	fieldLatestStart
	fieldTrace
	fieldMetadata

	fieldFailureCode
	fieldFailureMessage
	fieldFailureRetryable
	fieldFailureDetail
	fieldResult
	fieldPayload

	fieldEvent
	fieldType
	fieldToken
	fieldReason
	fieldKey

	fieldSlot
	fieldFire
	fieldConsidered

	fieldStream
	fieldPosition
	fieldData

	fieldCount
)

// A fieldSet has a bit for each field; this does not compile if there are more.
const _ = uint(64 - fieldCount)

var fieldNames = [fieldCount]string{
	fieldCodec:            "codec",
	fieldV:                "v",
	fieldTombstone:        "tombstone",
	fieldValue:            "value",
	fieldEnvironment:      "environment",
	fieldID:               "id",
	fieldRunID:            "run_id",
	fieldTask:             "task",
	fieldQueue:            "queue",
	fieldPriority:         "priority",
	fieldStatus:           "status",
	fieldSequence:         "sequence",
	fieldMaxAttempts:      "max_attempts",
	fieldAttempts:         "attempts",
	fieldFailures:         "failures",
	fieldRetries:          "retries",
	fieldReleases:         "releases",
	fieldDue:              "due_at",
	fieldCreated:          "created_at",
	fieldUpdated:          "updated_at",
	fieldFinished:         "finished_at",
	fieldRunAt:            "run_at",
	fieldAt:               "at",
	fieldExpires:          "expires_at",
	fieldLeaseToken:       "lease_token",
	fieldLeaseWorker:      "lease_worker",
	fieldLeaseAttempt:     "lease_attempt",
	fieldLeaseExpires:     "lease_expires_at",
	fieldLeaseDuration:    "lease_duration_ns",
	fieldLeaseQueueSlot:   "lease_queue_slot",
	fieldLeaseKeySlot:     "lease_key_slot",
	fieldSourceType:       "source_type",
	fieldSourceRun:        "source_run_id",
	fieldSchedule:         "schedule_id",
	fieldIdempotencyKey:   "idempotency_key",
	fieldIdempotencyTTL:   "idempotency_ttl_ns",
	fieldSingletonKey:     "singleton_key",
	fieldConcurrencyKey:   "concurrency_key",
	fieldWaitingFor:       "waiting_for",
	fieldTimeout:          "timeout_ns",
	fieldLatestStart:      "latest_start_at",
	fieldTrace:            "trace",
	fieldMetadata:         "metadata",
	fieldFailureCode:      "failure_code",
	fieldFailureMessage:   "failure_message",
	fieldFailureRetryable: "failure_retryable",
	fieldFailureDetail:    "failure_detail",
	fieldResult:           "result",
	fieldPayload:          "payload",
	fieldEvent:            "event",
	fieldType:             "type",
	fieldToken:            "token",
	fieldReason:           "reason",
	fieldKey:              "key",
	fieldSlot:             "slot",
	fieldFire:             "fire_at",
	fieldConsidered:       "considered_at",
	fieldStream:           "stream",
	fieldPosition:         "position",
	fieldData:             "data",
}

// String is the field's name in documents and in errors.
func (f field) String() string { return fieldNames[f] }

// fieldSet is a set of fields, one bit each.
type fieldSet uint64

func fields(all ...field) fieldSet {
	var s fieldSet
	for _, f := range all {
		s |= 1 << f
	}
	return s
}

func (s fieldSet) has(f field) bool { return s&(1<<f) != 0 }

// fieldsByHash finds a field by its name: a name's bucket holds the few fields
// that hash alike. A map would cost several times as much, for every member of
// every document.
var fieldsByHash = func() (buckets [128][]field) {
	for f := fieldNone + 1; f < fieldCount; f++ {
		h := hashName([]byte(fieldNames[f]))
		buckets[h] = append(buckets[h], f)
	}
	return buckets
}()

func hashName(name []byte) byte {
	return (byte(len(name))*37 ^ name[0]*7 ^ name[len(name)-1]*3 ^ name[len(name)/2]*11) & 127
}

// fieldNamed returns the field with a name, or fieldNone.
func fieldNamed(name []byte) field {
	if len(name) == 0 {
		return fieldNone
	}
	for _, f := range fieldsByHash[hashName(name)] {
		if fieldNames[f] == string(name) {
			return f
		}
	}
	return fieldNone
}
