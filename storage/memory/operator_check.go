package memory

import (
	"strings"
	"unicode/utf8"

	"github.com/seed4391e180/runlane/storage"
)

// checkRunFilter refuses what no driver answers and returns the limit of the page.
func checkRunFilter(limits storage.Limits, f storage.RunFilter) (int, error) {
	if f.Sort > storage.SortDue {
		return 0, badQuery("sort", "is none of the sorts of runs")
	}
	choices := map[string]int{
		"statuses": len(f.Statuses), "tasks": len(f.Tasks), "queues": len(f.Queues), "source types": len(f.SourceTypes),
	}
	texts := []string{f.SourceRun, f.Schedule, f.IdempotencyKey, f.SingletonKey, f.ConcurrencyKey}
	texts = append(append(texts, f.Tasks...), f.Queues...)
	texts = appendTexts(appendTexts(texts, f.Statuses), f.SourceTypes)
	return checkFilter(limits, f.Environment, f.Direction, f.Limit, choices, texts)
}

// checkEventFilter is checkRunFilter for events.
func checkEventFilter(limits storage.Limits, f storage.EventFilter) (int, error) {
	if f.Sort > storage.SortOccurred {
		return 0, badQuery("sort", "is none of the sorts of events")
	}
	if f.Sort == storage.SortSequence && f.RunID == "" {
		return 0, &storage.InputError{Kind: storage.ErrUnsupportedFilter, Field: "sort", Reason: "by sequence needs a run id"}
	}
	choices := map[string]int{"types": len(f.Types)}
	return checkFilter(limits, f.Environment, f.Direction, f.Limit, choices, appendTexts([]string{f.RunID}, f.Types))
}

func checkFilter(limits storage.Limits, environment string, direction storage.Direction, limit int, choices map[string]int, texts []string) (int, error) {
	if environment == "" {
		return 0, badQuery("environment", "is missing")
	}
	if direction > storage.Descending {
		return 0, badQuery("direction", "is neither Ascending nor Descending")
	}
	for field, n := range choices {
		if n > limits.MaxFilterChoices {
			return 0, &storage.InputError{Kind: storage.ErrInvalidQuery, Field: field, Reason: "has too many values", Limit: limits.MaxFilterChoices}
		}
	}
	for _, text := range append(texts, environment) {
		if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
			return 0, badQuery("filter", "is not valid UTF-8 without NUL")
		}
	}
	return limits.CheckLimit(limit)
}

func appendTexts[S ~string](texts []string, more []S) []string {
	for _, s := range more {
		texts = append(texts, string(s))
	}
	return texts
}

func badQuery(field, reason string) error {
	return &storage.InputError{Kind: storage.ErrInvalidQuery, Field: field, Reason: reason}
}
