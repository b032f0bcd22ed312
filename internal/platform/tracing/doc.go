// Package tracing writes OpenTelemetry traces that follow a change through the processes, if
// tracing is on.
//
// Package collector makes the tracer of a process. Where tracing is off there is none: a nil
// Tracer, and the Spans that it begins, do nothing and allocate nothing. No caller ever waits for
// it. A span that cannot be delivered is dropped, and that is logged once.
//
// A change of an object is merged with other changes and passed to other processes without a
// context. So the ids of its first span follow from what was changed (Change): every process that
// works on the change later can name that span. Work with one cause belongs to the trace of that
// cause; work with several is linked to each.
//
// The spans and their attributes:
//
//   - "policy changed": kind, namespace, name and generation (-1: deleted), until it is computed
//   - "compute", within the change or linked to several: inputs that were computed together
//   - "realize", the same: a round of work on an account
//   - "plan", within realize: account, region, operations, refusals
//   - "change", within realize: one operation with its region and object
//   - "call", within change or realize: provider, account, region, action, time held back, class of
//     the error
//
// Texts are cut to a bounded length. An error is recorded by the name of its class, never by its
// text, which may quote secrets.
//
// Concurrency: all methods may be called from any goroutine.
package tracing
