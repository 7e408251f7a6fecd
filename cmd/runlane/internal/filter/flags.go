package filter

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/usage"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// span is a half-open range of times as two flags.
type span struct {
	name         string
	after, until string
}

func (s *span) bind(cmd *cobra.Command, name, of string) {
	s.name = name
	cmd.Flags().StringVar(&s.after, name+"-after", "", "only "+of+" at or after this time")
	cmd.Flags().StringVar(&s.until, name+"-before", "", "only "+of+" before this time")
}

// read puts the range in r, and says by the flag what a relative time came to.
func (s *span) read(cmd *cobra.Command, now time.Time, r *storage.TimeRange, exact map[string]time.Time) error {
	for _, end := range []struct {
		flag, text string
		to         *time.Time
	}{{s.name + "-after", s.after, &r.From}, {s.name + "-before", s.until, &r.Until}} {
		if !cmd.Flags().Changed(end.flag) {
			continue
		}
		t, relative, err := ParseTime(end.text, now)
		if err != nil {
			return usage.Errorf("--%s: %v", end.flag, err)
		}
		if t.IsZero() {
			return usage.Errorf("--%s: there is nothing before the year 1", end.flag)
		}
		if *end.to = t; relative {
			exact[end.flag] = t
		}
	}
	if !r.From.IsZero() && !r.Until.IsZero() && !r.From.Before(r.Until) {
		return usage.Errorf("--%s-after is not before --%s-before", s.name, s.name)
	}
	return nil
}

// filled refuses flags that were given without a value: they would exclude nothing.
func filled(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && (f.Value.String() == "" || f.Value.String() == "[]") {
			return usage.Errorf("--%s is empty", name)
		}
	}
	return nil
}

// among reads values of a closed set.
func among[T ~string](flag string, values []string, all []T) (list []T, err error) {
	for _, v := range values {
		if !slices.Contains(all, T(v)) {
			return nil, usage.Errorf("--%s: %q is none of %s", flag, v, strings.Join(Names(all), ", "))
		}
		list = append(list, T(v))
	}
	return list, nil
}

// one reads one of a few names, and returns its place.
func one(flag, value string, names []string) (int, error) {
	i := slices.Index(names, value)
	if i < 0 {
		return 0, usage.Errorf("--%s: %q is none of %s", flag, value, strings.Join(names, ", "))
	}
	return i, nil
}

// Names are the values of a closed set as text.
func Names[T ~string](all []T) []string {
	names := make([]string, len(all))
	for i, v := range all {
		names[i] = string(v)
	}
	return names
}

// Complete lets the shell complete a flag from a closed set.
func Complete(cmd *cobra.Command, flag string, names []string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag exists, and has no other completion
	}
}

// The names of sorts and directions, in the order of their values.
var (
	runSorts   = []string{"created", "updated", "due"}
	eventSorts = []string{"sequence", "occurred"}
	directions = []string{"asc", "desc"}
	sources    = []run.SourceType{run.SourceTrigger, run.SourceSchedule, run.SourceRerun, run.SourceManualRetry}
)

// paging is the part of a filter that says which page.
type paging struct {
	direction string
	ascending bool
	limit     int
	cursor    string
	all       bool
}

func (p *paging) bind(cmd *cobra.Command, direction string) {
	flags := cmd.Flags()
	flags.StringVar(&p.direction, "direction", direction, "asc (oldest first) or desc")
	flags.BoolVar(&p.ascending, "asc", false, "the same as --direction asc")
	flags.IntVar(&p.limit, "limit", 50, "how many a page has, 1 to 500; beside --all 500 is the default")
	flags.StringVar(&p.cursor, "cursor", "", "the next page, as the page before names it")
	flags.BoolVar(&p.all, "all", false, "all pages; ndjson is written page by page")
	Complete(cmd, "direction", directions)
}

func (p *paging) read(cmd *cobra.Command) (direction storage.Direction, limit int, err error) {
	if err := filled(cmd, "cursor"); err != nil {
		return 0, 0, err
	}
	i, err := one("direction", p.direction, directions)
	if err != nil {
		return 0, 0, err
	}
	if p.ascending && cmd.Flags().Changed("direction") {
		return 0, 0, usage.Errorf("--asc and --direction exclude each other")
	}
	if p.ascending {
		i = int(storage.Ascending)
	}
	most := storage.DefaultLimits().MaxPage
	if p.limit < 1 || p.limit > most {
		return 0, 0, usage.Errorf("--limit is %d, which is not within 1 to %d", p.limit, most)
	}
	if p.all && !cmd.Flags().Changed("limit") {
		return storage.Direction(i), most, nil
	}
	return storage.Direction(i), p.limit, nil
}
