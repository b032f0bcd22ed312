package watchstore

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Event is an event of a watch.
type Event struct {
	Type   watch.EventType
	Object runtime.Object
	// Frames keeps how the object is encoded, for all receivers that get the same object; nil if
	// the object was made for this one alone, which may then modify what does not point elsewhere.
	Frames *Frames
}

// Frames keeps encodings, so that what many receive is encoded once per encoding. It is safe for
// concurrent use.
type Frames struct {
	// last is the encoding that came last, which leads to those before.
	last atomic.Pointer[frame]
}

type frame struct {
	id     string
	before *frame
	once   sync.Once
	data   []byte
	err    error
}

// Encode returns the encoding with the given id, which encode writes if it is the first. The bytes
// must not be modified.
func (f *Frames) Encode(id string, encode func(io.Writer) error) ([]byte, error) {
	x := f.of(id)
	x.once.Do(func() {
		var b bytes.Buffer
		x.err = encode(&b)
		x.data = bytes.Clone(b.Bytes())
	})
	return x.data, x.err
}

func (f *Frames) of(id string) *frame {
	for {
		last := f.last.Load()
		for x := last; x != nil; x = x.before {
			if x.id == id {
				return x
			}
		}
		if x := (&frame{id: id, before: last}); f.last.CompareAndSwap(last, x) {
			return x
		}
	}
}

// rendering is an object as receivers get it, which several may share. All that ask for one at the
// same time wait for the first of them to make it: a group of ten thousand members that a thousand
// of them made, each for itself, would take gigabytes.
type rendering struct {
	made   atomic.Bool
	making sync.Mutex

	object runtime.Object
	frames Frames
	// last is the last member in it if there are more.
	last Member
}

// sharedBy returns the rendering at a place that receivers share, and whether it was not there.
func sharedBy(place *atomic.Pointer[rendering]) (r *rendering, first bool) {
	for {
		if r = place.Load(); r != nil {
			return r, false
		}
		if r = (&rendering{}); place.CompareAndSwap(nil, r) {
			return r, true
		}
	}
}

// fill has the object made unless it is. If that panics, the next receiver tries again.
func (r *rendering) fill(build func()) {
	if r.made.Load() {
		return
	}
	r.making.Lock()
	defer r.making.Unlock()
	if !r.made.Load() {
		build()
		r.made.Store(true)
	}
}

func (r *rendering) event(t watch.EventType) Event {
	return Event{Type: t, Object: r.object, Frames: &r.frames}
}
