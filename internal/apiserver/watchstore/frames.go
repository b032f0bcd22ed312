package watchstore

import (
	"bytes"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Event is an event of a watch.
type Event struct {
	Type   watch.EventType
	Object runtime.Object
	// Frames keeps how the object is encoded, for all receivers that get the same object; nil if the object was made for this
	// one alone, which may then modify what does not point elsewhere.
	Frames *Frames
}

// Frames keeps encodings, so that what many receive is encoded once per encoding. It is safe for concurrent use.
type Frames struct {
	mu   sync.Mutex
	kept []*frame
}

type frame struct {
	id   string
	once sync.Once
	data []byte
	err  error
}

// Encode returns the encoding with the given id, which encode writes if it is the first. The bytes must not be modified.
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
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.kept {
		if x.id == id {
			return x
		}
	}
	x := &frame{id: id}
	f.kept = append(f.kept, x)
	return x
}

// rendering is an object as receivers get it, which several may share.
type rendering struct {
	object runtime.Object
	frames Frames
	// last is the last member in it if there are more.
	last *Member
}

func (r *rendering) event(t watch.EventType) Event {
	return Event{Type: t, Object: r.object, Frames: &r.frames}
}
