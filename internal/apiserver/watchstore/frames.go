package watchstore

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
)

// Frames keeps encodings, so that what many receive is encoded once per encoding. It is safe for
// concurrent use.
type Frames struct {
	// last is the encoding that came last, which leads to those before.
	last atomic.Pointer[frame]
}

type frame struct {
	id     string
	before *frame
	making sync.Mutex
	made   bool
	data   []byte
}

// Encode returns the encoding with the given id, which encode writes if it is the first. If that
// fails or panics, the next receiver tries again. The bytes must not be modified.
func (f *Frames) Encode(id string, encode func(io.Writer) error) ([]byte, error) {
	x := f.of(id)
	x.making.Lock()
	defer x.making.Unlock()
	if x.made {
		return x.data, nil
	}
	var b bytes.Buffer
	if err := encode(&b); err != nil {
		return nil, err
	}
	x.data, x.made = bytes.Clone(b.Bytes()), true
	return x.data, nil
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
