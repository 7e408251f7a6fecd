// Package run is the domain of durable runs: what a run is, which events can
// happen to it, and the pure reducer that turns events into a run.
//
// A run is one piece of work that survives crashes. Its whole current state is
// one [Run]; everything that ever happened to it is its history of [Event]s,
// numbered from 1 without a gap. [Reduce] is the only place where one turns into
// the other, so a history and a state can always be compared.
//
// The package knows no database, no clock and no randomness: times and
// identifiers come in with the events.
package run
