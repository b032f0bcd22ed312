// Package weigh computes how much memory it takes to decode a body before it is decoded. A body of
// two bytes an element may decode to hundreds of times its size, so a bound on its bytes does not
// bound memory.
//
// A Scale knows one Go type with its json and protobuf tags. It walks a body once, allocates
// nothing that depends on it, and adds up what a decoder allocates: elements of lists (and the
// smaller lists that growing leaves behind), entries of maps, targets of pointers, and texts.
// Fields that the type does not have cost nothing, because decoders skip them. A malformed body
// weighs as much as the part before the fault, where decoders stop too.
//
// A Scale is safe for concurrent use. There is no I/O.
package weigh
