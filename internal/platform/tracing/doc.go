// Package tracing writes OpenTelemetry traces of the way of a change, if they are switched on.
//
// It is set up by the standard variables OTEL_*, and off without them: a nil Tracer does nothing,
// allocates nothing, and so do the Spans that it begins. Nothing is ever waited for. What cannot be
// delivered is dropped, and that is logged once.
//
// On its way a change of an object is merged with other changes and handed to other processes, none
// of which carry a context. So the ids of its first span follow from what was changed (Change):
// every process that works on the change later can name that span. Work with one cause belongs to
// the trace of that cause; work with several is linked to each.
//
// The spans and what they say:
//
//   - "policy changed": kind, namespace, name and generation (-1: deleted), until it is computed
//   - "compute", within the change or linked to several: inputs that were computed together
//   - "realize", the same: a round of work on an account
//   - "plan", within realize: account, region, operations, refusals
//   - "change", within realize: one operation with its region and object
//   - "call", within change or realize: provider, account, region, action, time held back, class of
//     the error
//
// Texts are cut to a bounded length. Errors are given by the name of their class, never by their
// text, which may quote what it should not.
//
// Concurrency: all methods may be called from any goroutine.
package tracing
