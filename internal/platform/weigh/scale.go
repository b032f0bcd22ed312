package weigh

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// form is what a value consists of.
type form uint8

const (
	// plain is a number or a truth value, which takes no more room than its place.
	plain form = iota
	text
	object
	list
	dict
	// opaque decodes itself, of which nothing is known: what it keeps is about as large as its
	// text.
	opaque
)

// shape is what is known of a type.
type shape struct {
	form form
	// size is that of one value in its place.
	size int
	// key and element are the types in lists and maps.
	key     *shape
	element member
	// fields and numbers are the members of an object by their names in JSON and protobuf.
	fields  map[string]member
	numbers map[int]member
	// exact objects make room for just as many elements as there are when they are read from
	// protobuf.
	exact bool
}

// member is a value somewhere in a type.
type member struct {
	*shape
	// pointer is set if the value stands elsewhere.
	pointer bool
}

// Scale weighs bodies for one Go type.
type Scale struct{ root member }

// New returns the Scale of a type. Exact tells the packages by their paths whose Unmarshal makes
// room for as many elements as a list has, and not more.
func New(typ reflect.Type, exact func(pkg string) bool) Scale {
	b := builder{exact, map[reflect.Type]*shape{}}
	return Scale{b.member(typ)}
}

type builder struct {
	exact func(pkg string) bool
	known map[reflect.Type]*shape
}

var (
	readsJSON = reflect.TypeFor[json.Unmarshaler]()
	readsText = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func (b builder) member(typ reflect.Type) member {
	if typ.Kind() == reflect.Pointer {
		return member{b.shape(typ.Elem()), true}
	}
	return member{b.shape(typ), false}
}

func (b builder) shape(typ reflect.Type) *shape {
	if s := b.known[typ]; s != nil {
		return s
	}
	s := &shape{size: int(typ.Size())}
	b.known[typ] = s // types may contain themselves
	switch kind := typ.Kind(); {
	case reflect.PointerTo(typ).Implements(readsJSON) || reflect.PointerTo(typ).Implements(readsText):
		s.form = opaque
		if kind == reflect.Struct {
			b.fields(s, typ) // protobuf knows them
		}
	case kind == reflect.String:
		s.form = text
	case kind == reflect.Slice && typ.Elem().Kind() == reflect.Uint8:
		s.form = text
	case kind == reflect.Slice || kind == reflect.Array:
		s.form, s.element = list, b.member(typ.Elem())
	case kind == reflect.Map:
		s.form, s.key, s.element = dict, b.shape(typ.Key()), b.member(typ.Elem())
	case kind == reflect.Struct:
		s.form = object
		b.fields(s, typ)
	case kind == reflect.Interface:
		s.form = opaque
	}
	return s
}

// fields finds the members of a struct.
func (b builder) fields(s *shape, typ reflect.Type) {
	s.fields, s.numbers, s.exact = map[string]member{}, map[int]member{}, b.exact(typ.PkgPath())
	for f := range typ.Fields() {
		if !f.IsExported() && !f.Anonymous {
			continue
		}
		m := b.member(f.Type)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && name == "" && m.shape.fields != nil:
			for name, inner := range m.shape.fields {
				s.fields[name] = inner
			}
		case name == "":
			s.fields[f.Name] = m
		default:
			s.fields[name] = m
		}
		if parts := strings.Split(f.Tag.Get("protobuf"), ","); len(parts) > 1 {
			if n, err := strconv.Atoi(parts[1]); err == nil {
				s.numbers[n] = m
			}
		}
	}
}

const (
	// The rest of what decoding an object and an element of a list takes, measured.
	perObject  = 160
	perElement = 48
	// perText is the smallest piece of memory.
	perText = 16
	// perOpaque is what it takes to call a value that decodes itself.
	perOpaque = 128
	// A map has a part of its places free, and is copied when it grows; beside it a decoder of JSON
	// keeps which names there were.
	mapGrowth = 5
	// A list doubles until it is long, and grows by quarters then: all that it outgrows together
	// are at most so many times the last.
	listGrowth = 5
)

// entry is what an entry of a map takes.
func (m member) entry() int { return mapGrowth * (m.key.size + m.element.place()) }

// grown is what a list takes that has grown to so many elements of a size, those included that it
// has outgrown.
func grown(n, size int) int {
	total := 0
	for room := 0; room < n; {
		switch {
		case room == 0:
			room = 1
		case room < 256:
			room *= 2
		default:
			room += (room + 3*256) / 4
		}
		total += room*size + room*size/8 // pieces of memory come in certain sizes
	}
	return total
}
