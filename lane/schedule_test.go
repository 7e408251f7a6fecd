package lane

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

func place(t testing.TB, name string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// fires are the fires of a spec in (after, until].
func fires(s Spec, after, until time.Time) (all []time.Time) {
	for at := s.next(after); !at.IsZero() && !at.After(until); at = s.next(at) {
		all = append(all, at)
	}
	return all
}

// byTheMinute is when a cron expression of two fields, minute and hour, fires:
// found by looking at every minute's clock.
func byTheMinute(minutes, hours []int, location *time.Location, after, until time.Time) (all []time.Time) {
	seen := map[string]bool{}
	for at := after.Truncate(time.Minute).Add(-4 * time.Hour); !at.After(until); at = at.Add(time.Minute) {
		local := at.In(location)
		if !slices.Contains(minutes, local.Minute()) || hours != nil && !slices.Contains(hours, local.Hour()) {
			continue
		}
		clock := local.Format("2006-01-02 15:04")
		if hours != nil && seen[clock] {
			continue // the time comes again
		}
		if seen[clock] = true; at.After(after) {
			all = append(all, at.UTC())
		}
	}
	return all
}

// Around every change of the clocks, and everywhere else, cron expressions fire when
// the clocks on the wall say so.
func TestCronAgainstTheClocks(t *testing.T) {
	places := []*time.Location{
		place(t, "Europe/Berlin"), place(t, "America/New_York"), place(t, "Australia/Lord_Howe"), place(t, "Asia/Kolkata"), time.UTC,
	}
	changes := []time.Time{
		time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC), time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC), // Berlin
		time.Date(2026, 3, 8, 7, 0, 0, 0, time.UTC), time.Date(2026, 11, 1, 6, 0, 0, 0, time.UTC), // New York
		time.Date(2026, 10, 3, 15, 30, 0, 0, time.UTC), time.Date(2026, 4, 4, 15, 0, 0, 0, time.UTC), // Lord Howe: half an hour
	}
	rapid.Check(t, func(t *rapid.T) {
		location := rapid.SampledFrom(places).Draw(t, "place")
		after := rapid.SampledFrom(changes).Draw(t, "change").Add(time.Duration(rapid.IntRange(-30*60, 10*60).Draw(t, "minutes from it")) * time.Minute)
		until := after.Add(36 * time.Hour)
		minutes := rapid.SliceOfNDistinct(rapid.IntRange(0, 59), 1, 3, rapid.ID).Draw(t, "minutes")
		var hours []int
		hour := "*"
		if rapid.IntRange(0, 3).Draw(t, "hour") > 0 {
			hours = rapid.SliceOfNDistinct(rapid.IntRange(0, 4), 1, 2, rapid.ID).Draw(t, "hours")
			hour = list(hours)
		}
		expression := list(minutes) + " " + hour + " * * *"
		got, want := fires(Cron(expression, location), after, until), byTheMinute(minutes, hours, location, after, until)
		if !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Fatalf("%q in %s after %s fires at\n%v, not at\n%v", expression, location, after, got, want)
		}
	})
}

func list(numbers []int) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = fmt.Sprint(n)
	}
	return strings.Join(texts, ",")
}

func TestEveryAndLatest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		interval := time.Duration(rapid.Int64Range(1_000_000, 100_000_000).Draw(t, "interval")) * time.Microsecond
		offset := time.Duration(rapid.Int64Range(0, interval.Microseconds()-1).Draw(t, "offset")) * time.Microsecond
		after := time.UnixMicro(rapid.Int64Range(-1e9, 4e15).Draw(t, "after")).UTC()
		s := Every(interval, offset)
		next := s.next(after)
		if !next.After(after) || next.Add(-interval).After(after) || (next.UnixMicro()-offset.Microseconds())%interval.Microseconds() != 0 {
			t.Fatalf("%s after %s fires at %s", s, after, next)
		}
		until := after.Add(time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "more")) * time.Microsecond)
		want := time.Time{}
		if all := fires(s, after, until); len(all) > 0 {
			want = all[len(all)-1]
		}
		if got := s.latest(after, until); !got.Equal(want) {
			t.Fatalf("%s: the latest in (%s, %s] is %s, not %s", s, after, until, got, want)
		}
	})
	// A schedule that nobody looked at for 50 years costs no walk through all of them.
	s := Every(time.Second, 0)
	if got := s.latest(time.Unix(0, 0), time.Unix(50*365*86400, 0)); got.Unix() != 50*365*86400 {
		t.Error(got)
	}
}

// scheduled is a lane with a schedule whose runs return the time of their fire.
func (w *world) scheduled(spec Spec, opts ScheduleOptions) (*Lane, *Task[time.Time, time.Time]) {
	l := w.newLane()
	task := Define(l, "task", func(_ context.Context, _ *Attempt, fire time.Time) (time.Time, error) { return fire, nil }, TaskOptions{})
	Schedule(l, "schedule", task, spec, func(fire time.Time) time.Time { return fire }, opts)
	return l, task
}

func (w *world) fired(l *Lane) (all []time.Time) {
	w.t.Helper()
	list, err := l.Occurrences(context.Background(), "schedule", 500)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, o := range slices.Backward(list) {
		r := w.run(o.RunID)
		if r.Source != (run.Source{Type: run.SourceSchedule, Schedule: "schedule"}) || !o.Created.Equal(r.Created) || o.Fire.After(o.Created) {
			w.t.Errorf("%+v made %+v", o, r)
		}
		if want := fmt.Sprintf("%q", o.Fire.Format(time.RFC3339Nano)); string(r.Payload) != want {
			w.t.Errorf("the fire at %s has the payload %s", o.Fire, r.Payload)
		}
		all = append(all, o.Fire)
	}
	return all
}

// Twenty processes with one schedule: each fire makes one run, and soon.
func TestEachFireMakesOneRun(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		spec := Every(time.Minute, 7*time.Second)
		var stops []func() error
		var l *Lane
		for range 20 {
			l, _ = w.scheduled(spec, ScheduleOptions{})
			stops = append(stops, w.start(l, WorkerConfig{}))
		}
		began := time.Now()
		time.Sleep(time.Hour + time.Second)
		for _, stop := range stops {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
		if got, want := w.fired(l), fires(spec, began, time.Now()); !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Errorf("fired at %v, not at %v", got, want)
		}
		if n := len(w.runs()); n != 60 {
			t.Errorf("%d runs", n)
		}
		for _, r := range w.runs() {
			if late := r.Created.Sub(r.Created.Truncate(time.Minute).Add(7 * time.Second)); late < 0 || late > time.Second {
				t.Errorf("a run is %v late", late)
			}
		}
	})
}

// Of the fires that passed while no process was there, the latest makes a run.
func TestMissedFires(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		l, _ := w.scheduled(Every(time.Hour, 0), ScheduleOptions{})
		tick := func(l *Lane, want int) {
			t.Helper()
			done, err := l.Tick(ctx)
			if err != nil || done.Fired != want {
				t.Errorf("%+v, %v, want %d", done, err, want)
			}
		}
		tick(l, 0) // a new schedule does not fire for the past
		time.Sleep(59 * time.Minute)
		tick(l, 0)
		time.Sleep(time.Minute)
		tick(l, 1)
		tick(l, 0)
		time.Sleep(5*time.Hour + time.Minute)
		again, _ := w.scheduled(Every(time.Hour, 0), ScheduleOptions{})
		tick(again, 1)
		tick(l, 0)
		start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		if got, want := w.fired(l), []time.Time{start.Add(time.Hour), start.Add(6 * time.Hour)}; !slices.Equal(got, want) {
			t.Errorf("fired at %v, not at %v", got, want)
		}
		// A changed one counts from the last fire.
		changed, _ := w.scheduled(Every(time.Hour, 30*time.Minute), ScheduleOptions{})
		tick(changed, 0)
		time.Sleep(29 * time.Minute)
		tick(changed, 1)
	})
}

func TestOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		at := time.Now().Add(90 * time.Minute)
		l, _ := w.scheduled(Once(at), ScheduleOptions{})
		stop := w.start(l, WorkerConfig{})
		time.Sleep(3 * time.Hour)
		if err := stop(); err != nil {
			t.Error(err)
		}
		again, _ := w.scheduled(Once(at), ScheduleOptions{})
		if done, err := again.Tick(ctx); err != nil || done.Fired != 0 {
			t.Errorf("%+v, %v", done, err)
		}
		if got := w.fired(l); len(got) != 1 || !got[0].Equal(at) {
			t.Errorf("fired at %v, not at %v", got, at)
		}
	})
}

func TestSkipActive(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.newLane()
		task := Define(l, "task", func(ctx context.Context, _ *Attempt, _ time.Time) (int, error) {
			time.Sleep(150 * time.Minute)
			return 0, nil
		}, TaskOptions{})
		Schedule(l, "schedule", task, Every(time.Hour, 0), func(fire time.Time) time.Time { return fire }, ScheduleOptions{SkipActive: true})
		stop := w.start(l, WorkerConfig{Grace: 5 * time.Hour})
		start := time.Now()
		time.Sleep(7*time.Hour + time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
		want := []time.Time{start.Add(time.Hour), start.Add(4 * time.Hour), start.Add(7 * time.Hour)}
		if got := w.fired(l); !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Errorf("fired at %v, not at %v", got, want)
		}
	})
}

// 10,000 schedules of which none is due cost one question; occurrences are kept as
// long as runs.
func TestManySchedules(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		l := w.newLane()
		l.keep = 48 * time.Hour
		task := Define(l, "task", func(_ context.Context, _ *Attempt, _ time.Time) (int, error) { return 0, nil }, TaskOptions{})
		for n := range 10_000 {
			interval := 24 * time.Hour
			if n%100 != 17 {
				interval *= 1000
			}
			Schedule(l, fmt.Sprint("schedule ", n), task, Every(interval, time.Duration(n)*time.Second), func(fire time.Time) time.Time { return fire }, ScheduleOptions{})
		}
		if _, err := l.tickSchedules(ctx); err != nil {
			t.Fatal(err)
		}
		if n := w.store.count("schedule.cursors"); n != 20 {
			t.Errorf("%d transactions for the cursors", n)
		}
		before := w.store.total()
		if fired, err := l.tickSchedules(ctx); err != nil || fired != 0 {
			t.Errorf("%d, %v", fired, err)
		}
		if n := w.store.total() - before; n != 1 {
			t.Errorf("%d transactions to find nothing due", n)
		}
		for day := range 4 {
			time.Sleep(24 * time.Hour)
			if fired, err := l.tickSchedules(ctx); err != nil || fired != 100 {
				t.Fatalf("day %d: %d, %v", day, fired, err)
			}
		}
		list, err := l.Occurrences(ctx, "schedule 17", 0)
		if err != nil || len(list) != 2 {
			t.Errorf("%d occurrences are kept, %v", len(list), err)
		}
	})
}

// A payload function that panics keeps no other schedule from firing, and fires once
// it no longer does.
func TestPayloadPanics(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l, task := w.scheduled(Every(time.Minute, 0), ScheduleOptions{})
		broken := true
		Schedule(l, "broken", task, Every(time.Minute, 0), func(fire time.Time) time.Time {
			if broken {
				panic("boom")
			}
			return fire
		}, ScheduleOptions{})
		ctx := context.Background()
		if _, err := l.Tick(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		done, err := l.Tick(ctx)
		if err == nil || !strings.Contains(err.Error(), `"broken"`) || done.Fired != 1 {
			t.Errorf("%+v, %v", done, err)
		}
		broken = false
		if done, err = l.Tick(ctx); err != nil || done.Fired != 1 {
			t.Errorf("%+v, %v", done, err)
		}
	})
}

// A cursor that another version wrote is left to that version.
func TestOpaqueCursor(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		l, _ := w.scheduled(Every(time.Minute, 0), ScheduleOptions{})
		cursor := l.schedules["schedule"].cursor
		_, err := w.memory.Transact(ctx, "test.cursor", func(ctx context.Context, tx storage.Tx) error {
			return tx.Create(ctx, storage.Record{Key: cursor, Document: []byte(`{"codec":"schedule_cursor","v":2,"value":{}}`)})
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if done, err := l.Tick(ctx); err != nil || done.Fired != 0 {
			t.Errorf("%+v, %v", done, err)
		}
	})
}

func TestBadSchedules(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.newLane()
		task := Define[int, int](l, "task", nil, TaskOptions{})
		other := Define[int, int](w.newLane(), "task", nil, TaskOptions{})
		payload := func(time.Time) int { return 0 }
		hourly := Every(time.Hour, 0)
		Schedule(l, "taken", task, hourly, payload, ScheduleOptions{})
		for name, define := range map[string]func(){
			"taken":          func() { Schedule(l, "taken", task, hourly, payload, ScheduleOptions{}) },
			"no name":        func() { Schedule(l, "", task, hourly, payload, ScheduleOptions{}) },
			"colon":          func() { Schedule(l, "a:b", task, hourly, payload, ScheduleOptions{}) },
			"no spec":        func() { Schedule(l, "s", task, Spec{}, payload, ScheduleOptions{}) },
			"other lane":     func() { Schedule(l, "s", other, hourly, payload, ScheduleOptions{}) },
			"no payload":     func() { Schedule(l, "s", task, hourly, nil, ScheduleOptions{}) },
			"delay":          func() { Schedule(l, "s", task, hourly, payload, ScheduleOptions{Run: TriggerOptions{Delay: 1}}) },
			"timeout":        func() { Schedule(l, "s", task, hourly, payload, ScheduleOptions{Run: TriggerOptions{Timeout: -7}}) },
			"short interval": func() { Schedule(l, "s", task, Every(time.Millisecond, 0), payload, ScheduleOptions{}) },
			"long offset":    func() { Schedule(l, "s", task, Every(time.Hour, time.Hour), payload, ScheduleOptions{}) },
			"cron":           func() { Schedule(l, "s", task, Cron("61 * * * *", nil), payload, ScheduleOptions{}) },
			"cron zone":      func() { Schedule(l, "s", task, Cron("TZ=UTC 1 * * * *", nil), payload, ScheduleOptions{}) },
			"cron bad zone":  func() { Schedule(l, "s", task, Cron("TZ=", nil), payload, ScheduleOptions{}) },
			"cron every":     func() { Schedule(l, "s", task, Cron("@every 1h", nil), payload, ScheduleOptions{}) },
			"six fields":     func() { Schedule(l, "s", task, Cron("* * * * * *", nil), payload, ScheduleOptions{}) },
			"never":          func() { Schedule(l, "s", task, Cron("0 0 30 2 *", nil), payload, ScheduleOptions{}) },
			"once long ago": func() {
				Schedule(l, "s", task, Once(time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC)), payload, ScheduleOptions{})
			},
		} {
			func() {
				defer func() {
					if thrown := recover(); thrown == nil {
						t.Errorf("%s is accepted", name)
					}
				}()
				define()
			}()
		}
	})
}
