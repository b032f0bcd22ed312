package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"unsafe"
)

const (
	// maxNumber is the largest field number there is.
	maxNumber = 1<<29 - 1
	// maxGroups is how deep groups may be nested.
	maxGroups = 64
	// A message of n bytes may become spentPerByte times n plus spentAtOnce bytes of lists and of
	// what pointers lead to. The smallest honest one, a list of members that have nothing but an
	// address of IPv4, takes fifteen times its bytes.
	spentPerByte = 16
	spentAtOnce  = 1 << 20
	// foreignLists is the first field of metav1.ObjectMeta that is a list or a map. No other
	// message of others has any. Its own Unmarshal lets lists grow as they come: foreignElement is
	// what the largest element takes then, the lists that it has outgrown included.
	foreignLists   = 11
	foreignElement = 640
)

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
	// left is what may still be allocated, by this message and those around it.
	left *int
	err  error
}

// NewReader returns a reader of the message in data.
func NewReader(data []byte) *Reader {
	left := spentPerByte*len(data) + spentAtOnce
	return &Reader{data: data, left: &left}
}

// Enter returns a reader of the message that the present field is. Leave is to be called when it
// has been read.
func (r *Reader) Enter() Reader { return Reader{data: r.view(), left: r.left, err: r.err} }

// Leave takes over the error of a nested message.
func (r *Reader) Leave(inner *Reader, message string) {
	if r.err == nil && inner.err != nil {
		r.err = fmt.Errorf("%s: %w", message, inner.err)
	}
}

// spend reports whether so many bytes may be allocated.
func (r *Reader) spend(n int) bool {
	if r.err != nil {
		return false
	}
	if *r.left -= n; *r.left < 0 {
		r.fail("more elements than so few bytes may have")
	}
	return r.err == nil
}

// New returns a value for a pointer to lead to.
func New[T any](r *Reader) *T {
	v := new(T)
	r.spend(int(unsafe.Sizeof(*v)))
	return v
}

// Append appends an element for the present field and returns it; nil after an error. Room is made
// for all elements of the field that the rest of the message has. A list of a message that comes
// again is copied, and that counts, too.
func Append[T any](r *Reader, list *[]T) *T {
	if len(*list) == cap(*list) {
		var element T
		room := len(*list) + r.occurrences()
		if !r.spend(room * int(unsafe.Sizeof(element))) {
			return nil
		}
		grown := make([]T, len(*list), room)
		copy(grown, *list)
		*list = grown
	}
	var element T
	*list = append(*list, element)
	return &(*list)[len(*list)-1]
}

// occurrences is how often the present field stands in the rest of the message.
func (r *Reader) occurrences() int {
	n, rest := 1, Reader{data: r.data, pos: r.pos, number: r.number, typ: r.typ, err: r.err}
	for rest.Skip(); rest.Next(); rest.Skip() {
		if rest.number == r.number {
			n++
		}
	}
	return n
}

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

// Message reads a nested message of a type of others, which knows no bounds.
func (r *Reader) Message(m interface{ Unmarshal(data []byte) error }) {
	raw := r.view()
	lists := Reader{data: raw, err: r.err}
	for ; lists.Next(); lists.Skip() {
		if lists.number >= foreignLists {
			r.spend(foreignElement)
		}
	}
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
		if e := Append(r, &list); e != nil {
			*e = uint32(r.Uint64())
		}
		return list
	}
	packed := Reader{data: r.view(), err: r.err}
	if room := len(list) + ends(packed.data); room > cap(list) && r.spend(room*4) {
		list = append(make([]uint32, 0, room), list...)
	}
	for packed.err = r.err; packed.err == nil && packed.pos < len(packed.data); {
		if v := packed.varint(); packed.err == nil {
			list = append(list, uint32(v))
		}
	}
	r.err = packed.err
	return list
}

// ends is how many numbers end in data: their last bytes have no high bit.
func ends(data []byte) int {
	n := 0
	for _, b := range data {
		if b < 0x80 {
			n++
		}
	}
	return n
}

// Skip passes over the present field.
func (r *Reader) Skip() {
	var groups [maxGroups]int
	open := groups[:0]
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
			if len(open) == maxGroups {
				r.fail(fmt.Sprintf("groups are nested deeper than %d", maxGroups))
				return
			}
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
