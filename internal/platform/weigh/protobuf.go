package weigh

import "encoding/binary"

// Protobuf weighs a message of protocol buffers. Beyond most it stops.
func (s Scale) Protobuf(data []byte, most int) int {
	w := fields{most: most}
	w.message(data, s.root.shape)
	return w.weight
}

// fields walks messages.
type fields struct{ weight, most int }

// message walks one message.
func (w *fields) message(data []byte, s *shape) {
	for len(data) > 0 && w.weight <= w.most {
		tag, n := binary.Uvarint(data)
		if n <= 0 {
			return
		}
		data = data[n:]
		var content []byte
		switch tag & 7 {
		case 0:
			if _, n = binary.Uvarint(data); n <= 0 {
				return
			}
			content, data = data[:n], data[n:]
		case 1, 5:
			if n = 8; tag&7 == 5 {
				n = 4
			}
			if len(data) < n {
				return
			}
			data = data[n:]
		case 2:
			length, n := binary.Uvarint(data)
			if n <= 0 || length > uint64(len(data)-n) {
				return
			}
			content, data = data[n:n+int(length)], data[n+int(length):]
		case 3, 4: // groups: no field of a type is one, and what is in them is passed over field by field
		default:
			return
		}
		if m, ok := s.numbers[int(min(tag>>3, 1<<30))]; ok {
			w.field(content, m, s.exact)
		}
	}
}

// field adds what one field takes.
func (w *fields) field(content []byte, m member, exact bool) {
	if m.pointer {
		w.weight += m.size
	}
	switch {
	case m.form == text:
		w.weight += perText + len(content)
	case m.form == dict:
		w.weight += m.entry() + 2*perText + len(content)
		if m.element.shape.numbers != nil {
			w.weight += listGrowth * len(content)
		}
	case m.form == list:
		place := m.element.place()
		if exact {
			place += place/8 + 8 // pieces of memory come in certain sizes
		} else {
			place *= listGrowth
		}
		if m.element.form == plain { // perhaps many in one
			w.weight += place * len(content)
			return
		}
		w.weight += place
		w.field(content, m.element, exact)
	case m.numbers != nil:
		w.message(content, m.shape)
	case m.form == opaque:
		w.weight += perText + 2*len(content)
	}
}
