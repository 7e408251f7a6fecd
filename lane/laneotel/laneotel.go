// Package laneotel tells OpenTelemetry what a lane does: a span for each attempt, in
// the trace of whoever triggered the run, and metrics of claims, attempts, lost leases
// and the oldest pending run. It uses the API of OpenTelemetry only; which exporters
// there are is up to the program.
//
//	cfg := lane.Config{Environment: "prod"}
//	if err := laneotel.Instrument(&cfg, laneotel.Options{}); err != nil { … }
//	l, err := lane.New(store, cfg)
//	stop, err := laneotel.Watch(l, laneotel.Options{}, "emails", "reports")
package laneotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed4391e180/runlane/lane"
)

// Options says where to. The zero value is the global providers and propagator.
type Options struct {
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	Propagator     propagation.TextMapPropagator
}

func (o Options) withDefaults() Options {
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.Propagator == nil {
		o.Propagator = otel.GetTextMapPropagator()
	}
	return o
}

// scope names the instrumentation.
const scope = "github.com/seed4391e180/runlane/lane/laneotel"

// The metrics.
const (
	MetricClaimed   = "runlane.runs.claimed"         // {run}: taken by workers, by queue
	MetricAttempts  = "runlane.attempts"             // {attempt}: ended, by queue, task, outcome and failure code
	MetricDuration  = "runlane.attempt.duration"     // s: from the start of the handler until its outcome was stored
	MetricRecovered = "runlane.leases.recovered"     // {lease}: ended because their workers did not renew them
	MetricSkipped   = "runlane.runs.skipped"         // {run}: seen due and not worked on, by queue and reason
	MetricOldest    = "runlane.queue.oldest_pending" // s: how long the oldest due run of a queue has waited
)

// Instrument adds to the configuration of a lane what it takes. Hooks that are there
// are called as before. It replaces Carry and Wrap, and refuses if one of them is set.
func Instrument(cfg *lane.Config, o Options) error {
	if cfg.Carry != nil || cfg.Wrap != nil {
		return errors.New("laneotel: Carry or Wrap is set already")
	}
	o = o.withDefaults()
	cfg.Carry = func(ctx context.Context) map[string]string {
		carrier := propagation.MapCarrier{}
		o.Propagator.Inject(ctx, carrier)
		return carrier
	}
	tracer := o.TracerProvider.Tracer(scope)
	cfg.Wrap = func(ctx context.Context, a *lane.Attempt, next func(ctx context.Context) error) error {
		return inSpan(o.Propagator.Extract(ctx, propagation.MapCarrier(a.Trace)), tracer, a, next)
	}
	hooks, err := hooksOf(o.MeterProvider.Meter(scope), cfg.Hooks)
	if err == nil {
		cfg.Hooks = hooks
	}
	return err
}

// inSpan runs a handler in a span. A run that is given back or waits has not failed.
func inSpan(ctx context.Context, tracer trace.Tracer, a *lane.Attempt, next func(ctx context.Context) error) error {
	ctx, span := tracer.Start(ctx, a.Task, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.String("runlane.run.id", a.RunID),
		attribute.String("runlane.task", a.Task),
		attribute.String("runlane.queue", a.Queue),
		attribute.Int("runlane.attempt", a.Number),
	))
	returned := false
	defer func() {
		if !returned {
			span.SetStatus(codes.Error, "the handler panicked or left its goroutine")
		}
		span.End()
	}()
	err := next(ctx)
	if returned = true; err != nil && !lane.GivesBack(err) {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	return err
}

// hooksOf are hooks that count, and call those that are there.
func hooksOf(meter metric.Meter, inner lane.Hooks) (lane.Hooks, error) {
	var errs []error
	counter := func(name, unit, description string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	claimed := counter(MetricClaimed, "{run}", "Runs that workers took")
	attempts := counter(MetricAttempts, "{attempt}", "Attempts that ended")
	recovered := counter(MetricRecovered, "{lease}", "Leases that were not renewed in time")
	skipped := counter(MetricSkipped, "{run}", "Due runs that a worker does not work on")
	duration, err := meter.Float64Histogram(MetricDuration, metric.WithUnit("s"), metric.WithDescription("Time from the start of a handler until its outcome was stored"))
	if err := errors.Join(append(errs, err)...); err != nil {
		return lane.Hooks{}, err
	}
	ctx := context.Background()
	return lane.Hooks{
		Claimed: func(queue string, runs int) {
			claimed.Add(ctx, int64(runs), metric.WithAttributes(attribute.String("queue", queue)))
			if inner.Claimed != nil {
				inner.Claimed(queue, runs)
			}
		},
		Finished: func(f lane.Finish) {
			of := metric.WithAttributes(attribute.String("queue", f.Queue), attribute.String("task", f.Task),
				attribute.String("outcome", string(f.Outcome)), attribute.String("code", f.Code))
			attempts.Add(ctx, 1, of)
			if f.Attempt > 0 {
				duration.Record(ctx, f.Took.Seconds(), of)
			}
			if inner.Finished != nil {
				inner.Finished(f)
			}
		},
		Recovered: func(runs int) {
			recovered.Add(ctx, int64(runs))
			if inner.Recovered != nil {
				inner.Recovered(runs)
			}
		},
		Skipped: func(queue string, why lane.Skip, runs int) {
			skipped.Add(ctx, int64(runs), metric.WithAttributes(attribute.String("queue", queue), attribute.String("reason", string(why))))
			if inner.Skipped != nil {
				inner.Skipped(queue, why, runs)
			}
		},
	}, nil
}

// lookTime bounds each look at a queue.
const lookTime = 5 * time.Second

// Watch measures, whenever metrics are collected, how long the oldest pending run of
// each queue has waited: one process of an environment is enough. A queue that cannot
// be looked at is missing from the collection, and the error goes to OpenTelemetry's
// handler. stop ends it.
func Watch(l *lane.Lane, o Options, queues ...string) (stop func() error, err error) {
	meter := o.withDefaults().MeterProvider.Meter(scope)
	gauge, err := meter.Float64ObservableGauge(MetricOldest, metric.WithUnit("s"), metric.WithDescription("How long the oldest due run of a queue has waited"))
	if err != nil {
		return nil, err
	}
	registration, err := meter.RegisterCallback(func(ctx context.Context, observer metric.Observer) error {
		var errs []error
		for _, queue := range queues {
			looking, cancel := context.WithTimeout(ctx, lookTime)
			oldest, err := l.OldestPending(looking, queue)
			cancel()
			if err != nil {
				errs = append(errs, err)
				continue
			}
			observer.ObserveFloat64(gauge, oldest.Waiting.Seconds(), metric.WithAttributes(attribute.String("queue", queue)))
		}
		return errors.Join(errs...)
	}, gauge)
	if err != nil {
		return nil, err
	}
	return registration.Unregister, nil
}
