// Package unicodetext reads text files as people have them: in UTF-8, with or without a byte-order
// mark, and in UTF-16, which the shell of Windows writes by default.
//
// It owns how the encoding is found out. It promises UTF-8 without a mark, or an error that names
// the encoding and the place. Functions may be called concurrently.
package unicodetext

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// The byte-order marks (The Unicode Standard, 23.8).
var (
	markUTF8   = []byte{0xef, 0xbb, 0xbf}
	markLittle = []byte{0xff, 0xfe}
	markBig    = []byte{0xfe, 0xff}
)

// Decode returns a text in UTF-8, without a byte-order mark.
func Decode(raw []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(raw, markUTF8):
		raw = raw[len(markUTF8):]
	case bytes.HasPrefix(raw, markLittle):
		return wide(raw[2:], binary.LittleEndian, "UTF-16, little endian")
	case bytes.HasPrefix(raw, markBig):
		return wide(raw[2:], binary.BigEndian, "UTF-16, big endian")
	case len(raw) >= 4 && raw[0] != 0 && raw[1] == 0 && raw[2] != 0 && raw[3] == 0: // what begins with ASCII
		return wide(raw, binary.LittleEndian, "UTF-16, little endian, without a byte-order mark")
	case len(raw) >= 4 && raw[0] == 0 && raw[1] != 0 && raw[2] == 0 && raw[3] != 0:
		return wide(raw, binary.BigEndian, "UTF-16, big endian, without a byte-order mark")
	}
	if at := invalid(raw); at >= 0 {
		return nil, fmt.Errorf("line %d: not UTF-8: the byte 0x%02x; save the file as UTF-8", 1+bytes.Count(raw[:at], []byte("\n")), raw[at])
	}
	return raw, nil
}

// invalid is the place of the first byte that is no part of UTF-8; -1 if there is none.
func invalid(raw []byte) int {
	for i := 0; i < len(raw); {
		r, size := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return -1
}

// wide decodes UTF-16.
func wide(raw []byte, order binary.ByteOrder, name string) ([]byte, error) {
	if len(raw)%2 != 0 {
		return nil, fmt.Errorf("%s, with an odd number of bytes: the file is cut, or mixed; save it as UTF-8", name)
	}
	units := make([]uint16, len(raw)/2)
	for i := range units {
		units[i] = order.Uint16(raw[2*i:])
	}
	out := make([]byte, 0, len(raw))
	for _, r := range utf16.Decode(units) {
		if r == utf8.RuneError {
			return nil, fmt.Errorf("line %d: not %s: half a character; save the file as UTF-8", 1+bytes.Count(out, []byte("\n")), name)
		}
		out = utf8.AppendRune(out, r)
	}
	return out, nil
}
