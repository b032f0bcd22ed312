package apiserver

import (
	"context"
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/nephele-io/nephele/internal/apiserver/storage"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// ahead is how many events are taken from the store before the client has received them: enough to
// fill network packets, few enough that most of what a slow client has not seen yet is still merged
// in the store. Of the list that a watch begins with, which watches share, it can be a few hundred.
const ahead = 32

// stream passes the events of one watch of the store on to the server.
type stream struct {
	source  *watchstore.Watcher
	metrics *Metrics
	logger  klog.Logger
	out     chan watch.Event
	cancel  context.CancelFunc
	ended   func()
}

// startStream begins to pass on what source delivers. It ends when ctx ends, when it is stopped, or
// when the store cuts the receiver off; then the channel is closed and ended is called.
func startStream(ctx context.Context, source *watchstore.Watcher, f storage.Filter, mark bool, m *Metrics, ended func()) *stream {
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{source: source, metrics: m, logger: klog.FromContext(ctx), out: make(chan watch.Event, ahead), cancel: cancel, ended: ended}
	go func() {
		// One that panics ends, and its receiver asks again.
		if fault := recovered.Do(func() { s.run(ctx, f, mark) }); fault != nil {
			s.report(fault)
		}
	}()
	return s
}

// report logs and counts a panic.
func (s *stream) report(fault error) {
	s.logger.Error(fault, "A watch panicked", "resource", s.source.Resource(), "stack", recovered.StackOf(fault))
	s.metrics.panicked("watches")
}

// Stop implements watch.Interface.
func (s *stream) Stop() { s.cancel() }

// ResultChan implements watch.Interface.
func (s *stream) ResultChan() <-chan watch.Event { return s.out }

func (s *stream) run(ctx context.Context, f storage.Filter, mark bool) {
	defer close(s.out)
	defer s.ended()
	defer s.source.Stop()
	taken := make([]watchstore.Event, ahead)
	for {
		events, err := s.source.Take(ctx, taken)
		if err != nil {
			s.metrics.ended(s.source.Resource(), err)
			return
		}
		for i := range events {
			event, ok := s.outgoing(&events[i], f, mark)
			if !ok {
				continue
			}
			select {
			case s.out <- event:
				s.metrics.event(s.source.Resource(), event.Type)
			case <-ctx.Done():
				return
			}
		}
		if len(events) < len(taken) { // what comes next may be long in coming
			clear(taken)
		}
	}
}

// outgoing is an event as the server encodes it; false means that the client did not ask for it.
func (s *stream) outgoing(e *watchstore.Event, f storage.Filter, mark bool) (watch.Event, bool) {
	if e.Type == watch.Bookmark {
		object := e.Object()
		if mark {
			object.(metav1.Object).SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		}
		return watch.Event{Type: e.Type, Object: object}, true
	}
	if !f.Wants(e.Name()) {
		return watch.Event{}, false
	}
	return watch.Event{Type: e.Type, Object: &carried{*e, s}}, true
}

// carried is the object of an event. It is made to be encoded, in memory that is used again; what
// many clients are sent is encoded once for each kind of event and media type.
type carried struct {
	watchstore.Event
	by *stream
}

var _ runtime.CacheableObject = (*carried)(nil)

// scratches are for objects while they are encoded.
var scratches = sync.Pool{New: func() any { return new(watchstore.Scratch) }}

// GetObjectKind implements runtime.Object.
func (c *carried) GetObjectKind() schema.ObjectKind { return c.Object().GetObjectKind() }

// DeepCopyObject implements runtime.Object.
func (c *carried) DeepCopyObject() runtime.Object { return c.Object().DeepCopyObject() }

// GetObject implements runtime.CacheableObject.
func (c *carried) GetObject() runtime.Object { return private(c.Object()) }

// CacheEncode implements runtime.CacheableObject.
func (c *carried) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	frames := c.Frames()
	if frames == nil {
		return c.write(encode, w)
	}
	data, err := frames.Encode(string(id), func(w io.Writer) error { return c.write(encode, w) })
	if err != nil {
		return err
	}
	if s, ok := w.(runtime.Splice); ok {
		s.Splice(data)
		return nil
	}
	_, err = w.Write(data)
	return err
}

// write encodes the object. A panic is an error, which ends the watch.
func (c *carried) write(encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	err := recovered.Call(func() error {
		scratch := scratches.Get().(*watchstore.Scratch)
		defer scratches.Put(scratch)
		object, own := c.View(scratch)
		if !own {
			object = private(object)
		}
		return encode(object, w)
	})
	if recovered.StackOf(err) != "" {
		c.by.report(err)
	}
	return err
}
