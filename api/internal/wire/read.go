package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// maxNumber is the largest field number there is.
const maxNumber = 1<<29 - 1

// Reader reads the fields of one message. After the first error Next reports false, and every value
// is zero.
//
//	for r := wire.NewReader(data); r.Next(); {
//		switch r.Number() {
//		case 1: name = r.String()
//		default: r.Skip()
//		}
//	}
type Reader struct {
	data   []byte
	pos    int
	number int
	typ    Type
	err    error
}

// NewReader returns a reader of the message in data.
func NewReader(data []byte) *Reader { return &Reader{data: data} }

// Next goes to the next field. The caller must read it, or skip it, before the next call.
func (r *Reader) Next() bool {
	if r.err != nil || r.pos == len(r.data) {
		return false
	}
	r.number, r.typ = r.key()
	if r.err == nil && r.typ == EndGroup {
		r.fail("end of a group that has not begun")
	}
	return r.err == nil
}

// Number is the number of the present field.
func (r *Reader) Number() int { return r.number }

// Done returns the first error, naming the message it is in.
func (r *Reader) Done(message string) error {
	if r.err != nil {
		return fmt.Errorf("proto: %s: %w", message, r.err)
	}
	return nil
}

// Uint64 reads a number; other integers are conversions of it.
func (r *Reader) Uint64() uint64 {
	if !r.expect(Varint) {
		return 0
	}
	return r.varint()
}

// Bool reads a truth value.
func (r *Reader) Bool() bool { return r.Uint64() != 0 }

// Double reads a floating-point number.
func (r *Reader) Double() float64 {
	if !r.expect(Fixed64) {
		return 0
	}
	raw := r.take(8)
	if raw == nil {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(raw))
}

// String reads a string.
func (r *Reader) String() string { return string(r.view()) }

// Bytes reads bytes into a slice of their own, which is never nil.
func (r *Reader) Bytes() []byte { return append([]byte{}, r.view()...) }

// Message reads a nested message.
func (r *Reader) Message(m interface{ Unmarshal(data []byte) error }) {
	raw := r.view()
	if r.err != nil {
		return
	}
	if err := m.Unmarshal(raw); err != nil {
		r.err = err
	}
}

// Uint32s reads one number of a repeated field, or several that were packed, and returns list with
// them.
func (r *Reader) Uint32s(list []uint32) []uint32 {
	if r.typ != Bytes {
		if v := r.Uint64(); r.err == nil {
			list = append(list, uint32(v))
		}
		return list
	}
	packed := Reader{data: r.view(), err: r.err}
	for packed.err == nil && packed.pos < len(packed.data) {
		if v := packed.varint(); packed.err == nil {
			list = append(list, uint32(v))
		}
	}
	r.err = packed.err
	return list
}

// Skip passes over the present field.
func (r *Reader) Skip() {
	open := []int{}
	for {
		switch r.typ {
		case Varint:
			r.varint()
		case Fixed64:
			r.take(8)
		case Bytes:
			r.view()
		case Fixed32:
			r.take(4)
		case StartGroup:
			open = append(open, r.number)
		case EndGroup:
			if open[len(open)-1] != r.number {
				r.fail(fmt.Sprintf("group %d ends as %d", open[len(open)-1], r.number))
			}
			open = open[:len(open)-1]
		default:
			r.fail(fmt.Sprintf("field %d has the unknown type %d", r.number, r.typ))
		}
		if r.err != nil || len(open) == 0 {
			return
		}
		r.number, r.typ = r.key()
	}
}

func (r *Reader) expect(want Type) bool {
	if r.err == nil && r.typ != want {
		r.fail(fmt.Sprintf("field %d has type %d, want %d", r.number, r.typ, want))
	}
	return r.err == nil
}

func (r *Reader) fail(text string) {
	if r.err == nil {
		r.err = fmt.Errorf("at byte %d: %s", r.pos, text)
	}
}

func (r *Reader) key() (int, Type) {
	v := r.varint()
	number := v >> 3
	if r.err == nil && (number == 0 || number > maxNumber) {
		r.fail(fmt.Sprintf("illegal field number %d", number))
	}
	return int(number), Type(v & 7)
}

func (r *Reader) varint() uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.data[r.pos:])
	switch {
	case n == 0:
		r.err = io.ErrUnexpectedEOF
		return 0
	case n < 0:
		r.fail("number longer than 64 bits")
		return 0
	}
	r.pos += n
	return v
}

// view returns the bytes of the present field; they belong to the data.
func (r *Reader) view() []byte {
	if !r.expect(Bytes) {
		return nil
	}
	n := r.varint()
	if r.err == nil && n > uint64(len(r.data)-r.pos) {
		r.err = io.ErrUnexpectedEOF
	}
	return r.take(int(n))
}

func (r *Reader) take(n int) []byte {
	if r.err == nil && n > len(r.data)-r.pos {
		r.err = io.ErrUnexpectedEOF
	}
	if r.err != nil {
		return nil
	}
	out := r.data[r.pos : r.pos+n]
	r.pos += n
	return out
}
