// Package wire writes and reads the protocol buffers encoding (proto2). It is what the generated
// methods of the API types are made of; nothing else should need it.
//
// Messages are written from the last byte to the first, so that the length of a nested message is
// known when its header is written. Buffers must be as large as the Size functions say; a smaller
// one is an error of the caller and panics. Reading never panics, never reads beyond the data, and
// never allocates more than sixteen times its length and a megabyte: what has more elements is
// refused before there is room for them.
//
// There is no state; a Reader belongs to one goroutine.
package wire
