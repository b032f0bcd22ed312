// Package wire writes and reads the protocol buffers encoding (proto2). It is what the generated
// methods of the API types are made of; nothing else should need it.
//
// Messages are written from the last byte to the first, so that the length of a nested message is
// known when its header is written. A buffer must be as large as the Size function says; a smaller
// one is a programming error and panics. Reading never panics and never reads beyond the data. It
// allocates at most sixteen times the length of the data plus a megabyte: a message with more
// elements is refused before memory for them is allocated.
//
// There is no state; a Reader belongs to one goroutine.
package wire
