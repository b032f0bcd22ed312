package wire

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Type is how the value of a field is encoded.
type Type uint8

// The types. Groups are only ever skipped.
const (
	Varint     Type = 0
	Fixed64    Type = 1
	Bytes      Type = 2
	StartGroup Type = 3
	EndGroup   Type = 4
	Fixed32    Type = 5
)

// SizeVarint is the number of bytes of v.
func SizeVarint(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// SizeLengthDelimited is the number of bytes of n bytes with their length before them.
func SizeLengthDelimited(n int) int { return SizeVarint(uint64(n)) + n }

// Every function below writes one field into b so that it ends before b[end], and returns where it
// begins. key is the first byte of the field: its number, 1 to 15, shifted left by three, and its
// Type.

// PutVarint writes a number. A negative one is passed with its sign extended.
func PutVarint(b []byte, end int, key byte, v uint64) int {
	return putKey(b, putVarint(b, end, v), key)
}

// PutBool writes a truth value.
func PutBool(b []byte, end int, key byte, v bool) int {
	end--
	b[end] = 0
	if v {
		b[end] = 1
	}
	return putKey(b, end, key)
}

// PutDouble writes a floating-point number.
func PutDouble(b []byte, end int, key byte, v float64) int {
	end -= 8
	binary.LittleEndian.PutUint64(b[end:], math.Float64bits(v))
	return putKey(b, end, key)
}

// PutString writes a string.
func PutString(b []byte, end int, key byte, v string) int {
	end -= len(v)
	copy(b[end:], v)
	return PutLength(b, end, key, len(v))
}

// PutBytes writes bytes.
func PutBytes(b []byte, end int, key byte, v []byte) int {
	end -= len(v)
	copy(b[end:], v)
	return PutLength(b, end, key, len(v))
}

// PutLength writes what stands before n bytes that were written already.
func PutLength(b []byte, end int, key byte, n int) int {
	return putKey(b, putVarint(b, end, uint64(n)), key)
}

func putKey(b []byte, end int, key byte) int {
	end--
	b[end] = key
	return end
}

func putVarint(b []byte, end int, v uint64) int {
	end -= SizeVarint(v)
	i := end
	for v >= 0x80 {
		b[i] = byte(v) | 0x80
		v >>= 7
		i++
	}
	b[i] = byte(v)
	return end
}
