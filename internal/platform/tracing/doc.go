// Package tracing writes OpenTelemetry traces of what becomes of a change, if they are switched on.
//
// It is set up by the standard variables OTEL_*, and off without them: a nil Tracer does nothing,
// allocates nothing, and so do the Spans that it begins. Nothing is ever waited for. What cannot be
// delivered is dropped, and that is logged once.
//
// A change of an object is told over and over on its way to where it takes effect, together with
// others and perhaps to other processes, none of which carry a context. So the ids of its first
// span follow from what was changed (Change): every process that works on it later can name that
// span. What has one cause belongs to its trace, and what has several is linked to each.
//
// Texts are cut to a bounded length. Errors are given by the name of their class, never by their
// text, which may quote what it should not.
//
// Concurrency: all methods may be called from any goroutine.
package tracing
