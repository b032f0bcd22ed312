package weigh

import (
	"bytes"
	"encoding/json"
)

// JSON weighs a JSON text. Beyond most it stops.
func (s Scale) JSON(data []byte, most int) int {
	r := reader{data: data, most: most}
	r.value(s.root)
	return r.weight
}

// reader walks a JSON text.
type reader struct {
	data         []byte
	pos          int
	weight, most int
}

// peek returns the next character that is no blank; 0 at the end.
func (r *reader) peek() byte {
	for ; r.pos < len(r.data); r.pos++ {
		switch c := r.data[r.pos]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// over reports whether there is no more to weigh.
func (r *reader) over() bool { return r.pos >= len(r.data) || r.weight > r.most }

// end makes the walk end here.
func (r *reader) end() { r.pos = len(r.data) }

// value walks one value. Without a shape it is passed over.
func (r *reader) value(m member) {
	if m.shape == nil {
		r.skip()
		return
	}
	c := r.peek()
	if m.pointer && c != 'n' {
		r.weight += m.size
	}
	switch {
	case m.form == opaque:
		begin := r.pos
		r.skip()
		r.weight += perOpaque + 2*(r.pos-begin)
	case m.form == object && c == '{':
		r.weight += perObject
		r.members(func(name []byte) { r.value(m.fields[key(name)]) })
	case m.form == dict && c == '{':
		n := 0
		r.members(func(name []byte) {
			r.weight += 2*len(name) + perText
			n++
			r.value(m.element)
		})
		r.weight += perObject + n*(m.entry()+mapGrowth*m.key.size)
	case m.form == list && c == '[':
		r.elements(m.element)
	case m.form == text && c == '"':
		r.weight += perText + 2*len(r.text()) // once as it stands, and once as it is meant
	default:
		r.skip()
	}
}

// place is how much room a value takes where it stands.
func (m member) place() int {
	if m.pointer {
		return 8
	}
	return m.size
}

func key(name []byte) string {
	if bytes.IndexByte(name, '\\') < 0 {
		return string(name)
	}
	var out string
	_ = json.Unmarshal(append(append([]byte{'"'}, name...), '"'), &out)
	return out
}

// members walks an object.
func (r *reader) members(each func(name []byte)) {
	r.pos++
	for !r.over() {
		switch r.peek() {
		case '"':
		case ',':
			r.pos++
			continue
		case '}':
			r.pos++
			return
		default:
			r.end()
			return
		}
		name := r.text()
		if r.peek() != ':' {
			r.end()
			return
		}
		r.pos++
		r.peek()
		each(name)
	}
}

// elements walks a list.
func (r *reader) elements(m member) {
	r.pos++
	n := 0
	for !r.over() {
		switch r.peek() {
		case ',':
			r.pos++
			continue
		case ']':
			r.pos++
			r.weight += grown(n, m.place())
			return
		}
		if n++; n*m.place() > r.most {
			break
		}
		r.weight += perElement
		r.value(m)
	}
	r.weight += grown(n, m.place())
	r.end()
}

// text passes over a text and returns it as it stands.
func (r *reader) text() []byte {
	r.pos++
	begin := r.pos
	for r.pos < len(r.data) {
		n := bytes.IndexAny(r.data[r.pos:], `"\`)
		switch {
		case n < 0:
			r.end()
			return r.data[begin:]
		case r.data[r.pos+n] == '"':
			r.pos += n + 1
			return r.data[begin : r.pos-1]
		}
		r.pos = min(r.pos+n+2, len(r.data))
	}
	return r.data[min(begin, len(r.data)):]
}

// skip passes over one value, however deep it is.
func (r *reader) skip() {
	begin := r.pos
	for depth := 0; r.pos < len(r.data); {
		switch r.data[r.pos] {
		case '"':
			r.text()
		case '{', '[':
			depth++
			r.pos++
			continue
		case '}', ']':
			if depth == 0 {
				break
			}
			depth--
			r.pos++
		case ',':
			if depth == 0 {
				break
			}
			r.pos++
			continue
		default:
			if r.pos++; r.pos < len(r.data) && !bytes.ContainsRune([]byte(",]} \t\r\n"), rune(r.data[r.pos])) {
				continue
			}
		}
		if depth == 0 {
			break
		}
	}
	if r.pos == begin { // nothing that a value begins with
		r.end()
	}
}
