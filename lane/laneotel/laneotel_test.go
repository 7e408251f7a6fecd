package laneotel_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/lane/laneotel"
	"github.com/seed4391e180/runlane/lane/lanetest"
)

func TestTelemetry(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	reader := sdkmetric.NewManualReader()
	o := laneotel.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		Propagator:     propagation.TraceContext{},
	}
	finished := 0
	cfg := lane.Config{Hooks: lane.Hooks{Finished: func(lane.Finish) { finished++ }}}
	require.NoError(t, laneotel.Instrument(&cfg, o))
	require.Error(t, laneotel.Instrument(&cfg, o), "instrumented twice")

	store := lanetest.New(t)
	l := store.Lane(cfg)
	task := lane.Define(l, "task", func(ctx context.Context, a *lane.Attempt, what string) (int, error) {
		require.True(t, trace.SpanContextFromContext(ctx).IsValid())
		switch {
		case what == "panic":
			panic("boom")
		case what == "error":
			return 0, errors.New("no")
		case what == "release" && a.Number == 1:
			return 0, a.Release(0)
		}
		return 1, nil
	}, lane.TaskOptions{MaxAttempts: 1})
	ctx, parent := o.TracerProvider.Tracer("test").Start(t.Context(), "request")
	for _, what := range []string{"panic", "error", "release", "result"} {
		_, err := task.Trigger(ctx, what)
		require.NoError(t, err)
	}
	parent.End()
	store.Run(l)
	require.Equal(t, 5, finished)

	bad := 0
	for _, s := range spans.Ended() {
		if s.Name() == "request" {
			continue
		}
		require.Equal(t, "task", s.Name())
		require.Equal(t, parent.SpanContext().TraceID(), s.SpanContext().TraceID(), "the trace of whoever triggered")
		require.Equal(t, parent.SpanContext().SpanID(), s.Parent().SpanID())
		if s.Status().Code == codes.Error {
			bad++
		}
	}
	require.Len(t, spans.Ended(), 6)
	require.Equal(t, 2, bad, "a panic and an error; giving a run back is neither")

	_, err := task.Trigger(ctx, "result")
	require.NoError(t, err)
	store.Advance(90 * time.Second)
	stop, err := laneotel.Watch(l, o, lane.DefaultQueue, "empty")
	require.NoError(t, err)
	sums, gauges := collect(t, reader)
	require.Equal(t, int64(5), sums[laneotel.MetricClaimed])
	require.Equal(t, int64(5), sums[laneotel.MetricAttempts])
	require.Equal(t, map[string]float64{lane.DefaultQueue: 90, "empty": 0}, gauges)
	require.NoError(t, stop())
	_, gauges = collect(t, reader)
	require.Empty(t, gauges)
}

// collect returns the sums of the counters and what the gauge says of each queue.
func collect(t *testing.T, reader sdkmetric.Reader) (sums map[string]int64, gauges map[string]float64) {
	t.Helper()
	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &data))
	sums, gauges = map[string]int64{}, map[string]float64{}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					sums[m.Name] += p.Value
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					queue, _ := p.Attributes.Value(attribute.Key("queue"))
					gauges[queue.AsString()] = p.Value
				}
			}
		}
	}
	return sums, gauges
}
