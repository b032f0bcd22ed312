// Package slab makes values many at a time, as long as its Arena is open: what there is at the
// beginning is most of what there ever is, and the garbage collector goes through one large piece
// of memory faster than through many small ones. A slab is kept as long as any value in it is, so
// what comes after the Arena is closed is made one by one. It is not safe for concurrent use.
package slab
