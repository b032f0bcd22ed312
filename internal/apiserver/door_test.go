package apiserver

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/nephele-io/nephele/internal/apiserver/groups"
	"github.com/nephele-io/nephele/internal/apiserver/stats"
)

// dense is a body of many small elements of one list or map, in all forms that an element may have.
type dense struct {
	name string
	// before, element and after make the JSON text; a map numbers its elements.
	before, element, after string
	dict                   bool
	// fields lead to the list in protobuf, where an element is content.
	fields  []int
	content []byte
}

// json is a text of n elements that has size bytes, if it is not longer.
func (d dense) json(n, size int) []byte {
	var b strings.Builder
	b.WriteString(d.before)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		if d.dict {
			fmt.Fprintf(&b, `"%x":`, i)
		}
		b.WriteString(d.element)
	}
	b.WriteString(d.after)
	b.WriteString(strings.Repeat(" ", max(0, size-b.Len())))
	return []byte(b.String())
}

// field is one field of protobuf.
func field(number int, content []byte) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(nil, uint64(number)<<3|2), uint64(len(content))), content...)
}

// protobuf is a message of n elements that has about size bytes, if it is not longer.
func (d dense) protobuf(kind schema.GroupVersionKind, n, size int) []byte {
	last := len(d.fields) - 1
	message := bytes.Repeat(field(d.fields[last], d.content), n)
	if d.dict {
		message = nil
		for i := range n {
			message = append(message, field(d.fields[last], field(1, fmt.Appendf(nil, "%x", i)))...)
		}
	}
	for _, number := range slices.Backward(d.fields[:last]) {
		message = field(number, message)
	}
	message = append(message, field(1000, make([]byte, max(0, size-len(message)-8)))...)
	envelope, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind}, Raw: message}).Marshal()
	if err != nil {
		panic(err)
	}
	return append([]byte("k8s\x00"), envelope...)
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func number(f reflect.StructField) int {
	var n int
	if parts := strings.Split(f.Tag.Get("protobuf"), ","); len(parts) > 1 {
		_, _ = fmt.Sscan(parts[1], &n)
	}
	return n
}

// least is the shortest JSON value of a type that is not null.
func least(typ reflect.Type) string {
	switch typ.Kind() {
	case reflect.Pointer:
		return least(typ.Elem())
	case reflect.String:
		return `""`
	case reflect.Bool:
		return `true`
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Uint8 {
			return `""`
		}
		return `[` + least(typ.Elem()) + `]`
	case reflect.Map:
		return `{"":` + least(typ.Elem()) + `}`
	case reflect.Struct:
		if reflect.PointerTo(typ).Implements(reflect.TypeFor[interface{ UnmarshalJSON([]byte) error }]()) {
			return `null`
		}
		return `{}`
	default:
		return `0`
	}
}

// densest lists the bodies that a type has, one for every list and map in it and every form of
// their elements.
func densest(typ reflect.Type) []dense {
	var out []dense
	var walk func(typ reflect.Type, at dense, within []reflect.Type)
	walk = func(typ reflect.Type, at dense, within []reflect.Type) {
		if slices.Contains(within, typ) || len(within) > 6 {
			return // types contain themselves
		}
		within = append(slices.Clone(within), typ)
		for f := range typ.Fields() {
			t, in := f.Type, at
			if t.Kind() == reflect.Pointer {
				t = t.Elem()
			}
			if name := jsonName(f); name != "" {
				in.name += "." + name
				in.before, in.after = at.before+`{"`+name+`":`, `}`+at.after
				in.fields = append(slices.Clone(at.fields), number(f))
			}
			switch {
			case t.Kind() == reflect.Struct:
				walk(t, in, within)
			case t.Kind() == reflect.Map:
				in.before, in.after, in.dict, in.element = in.before+`{`, `}`+in.after, true, least(t.Elem())
				out = append(out, in)
			case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
				in.before, in.after, in.element = in.before+`[`, `]`+in.after, least(t.Elem())
				out = append(out, in)
				element := t.Elem()
				if element.Kind() != reflect.Struct || in.element != `{}` {
					continue
				}
				for g := range element.Fields() {
					if name := jsonName(g); name != "" {
						form := in
						form.name += "[." + name + "]"
						form.element, form.content = `{"`+name+`":`+least(g.Type)+`}`, field(number(g), nil)
						out = append(out, form)
					}
				}
				walk(element, in, within)
			}
		}
	}
	walk(typ, dense{}, nil)
	return out
}

// nothing is asked nothing.
type nothing struct {
	Reviews
	Queries
	Traffic
}

// allocated is how many bytes f allocates.
func allocated(f func()) int {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	f()
	metrics.Read(sample)
	return int(sample[0].Value.Uint64() - before)
}

// The bodies of the test are small, and so is what they may weigh beside their bytes.
const testSize, testAtOnce = 16 << 10, 16 << 10

// TestDensestBodies: of every kind that can be created, in every encoding, with every list and map
// full of the smallest elements, the body with most of them that the door lets pass is decoded with
// as much memory as the door has weighed for it.
func TestDensestBodies(t *testing.T) {
	scheme, err := groups.Serving()
	if err != nil {
		t.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(scheme)
	d := newDoor(Options{}, codecs)
	o := Options{Reviews: nothing{}, Queries: nothing{}, Traffic: nothing{}, Statistics: &stats.Book{}}
	for gv, storages := range served(o, gate{}) {
		if err := d.serves(gv, storages, scheme); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.resources) < 10 {
		t.Errorf("only %d resources can be created", len(d.resources))
	}
	for name, b := range d.resources {
		object, err := scheme.New(b.kind)
		if err != nil {
			t.Fatal(err)
		}
		typ, worst, worstName := reflect.TypeOf(object).Elem(), 0.0, ""
		shapes := densest(typ)
		if len(shapes) < 4 {
			t.Errorf("%s: only %d bodies", name, len(shapes))
		}
		for _, media := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
			info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), media)
			if !ok {
				t.Fatal(media)
			}
			for _, shape := range shapes {
				if media == runtime.ContentTypeProtobuf && (slices.Contains(shape.fields, 0) || shape.content != nil && shape.content[0]>>3 == 0) {
					continue // has no place in protobuf
				}
				body := func(n int) []byte {
					if media == runtime.ContentTypeProtobuf {
						return shape.protobuf(b.kind, n, testSize)
					}
					return shape.json(n, testSize)
				}
				n := mostAccepted(t, b, media, body)
				raw := body(n)
				bound := weightPerByte*len(raw) + testAtOnce
				if media == runtime.ContentTypeProtobuf {
					bound += len(raw) // the envelope is copied
				}
				took := math.MaxInt
				// The first decodes with cold caches, and others may allocate meanwhile.
				for try := 0; try < 2 || try < 20 && took > bound; try++ {
					took = min(took, allocated(func() {
						into := reflect.New(typ).Interface().(runtime.Object)
						decoder := codecs.DecoderToVersion(info.StrictSerializer, schema.GroupVersion{Group: b.kind.Group, Version: runtime.APIVersionInternal})
						_, _, _ = decoder.Decode(raw, &b.kind, into)
					}))
				}
				if took > bound {
					t.Errorf("%s, %s: %d elements%s in %d bytes take %d bytes to decode, more than %d", name, media, n, shape.name, len(raw), took, bound)
				}
				if part := float64(took) / float64(bound); part > worst {
					worst, worstName = part, media+" "+shape.name
				}
			}
		}
		t.Logf("%s: %d forms, at most %.0f %% of what was weighed: %s", name, len(shapes), 100*worst, worstName)
	}
}

// mostAccepted is the largest number of elements that the door lets pass.
func mostAccepted(t *testing.T, b *body, media string, body func(n int) []byte) int {
	t.Helper()
	r := &http.Request{Header: http.Header{"Content-Type": {media}}}
	passes := func(n int) bool {
		raw := body(n)
		if len(raw) > testSize+64 {
			return false
		}
		bound := weightPerByte*len(raw) + testAtOnce
		weight, err := b.weight(r, raw, bound)
		if err != nil {
			t.Fatal(err)
		}
		return weight <= bound
	}
	low, high := 1, testSize
	for low+1 < high {
		if mid := (low + high) / 2; passes(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// TestHolder: callers without an identity are told apart by their addresses.
func TestHolder(t *testing.T) {
	of := func(name, address string) string {
		r := (&http.Request{RemoteAddr: address}).WithContext(request.WithUser(t.Context(), &user.DefaultInfo{Name: name}))
		return holder(r)
	}
	if of(user.Anonymous, "10.0.0.1:1") != of(user.Anonymous, "10.0.0.1:2") || of(user.Anonymous, "10.0.0.1:1") == of(user.Anonymous, "10.0.0.2:1") {
		t.Error("strangers share by something else than their address")
	}
	if of("a", "10.0.0.1:1") != of("a", "10.0.0.2:1") || of("a", "10.0.0.1:1") == of("b", "10.0.0.1:1") {
		t.Error("users share by something else than their identity")
	}
}
