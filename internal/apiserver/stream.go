package apiserver

import (
	"context"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// ahead is how many events are taken from the store before the client has received them: enough to
// fill network packets, few enough that most of what a slow client has not seen yet is still merged
// in the store.
const ahead = 32

// stream passes the events of one watch of the store on to the server.
type stream struct {
	source  *watchstore.Watcher
	metrics *Metrics
	out     chan watch.Event
	cancel  context.CancelFunc
	ended   func()
}

// startStream begins to pass on what source delivers. It ends when ctx ends, when it is stopped, or
// when the store cuts the receiver off; then the channel is closed and ended is called.
func startStream(ctx context.Context, source *watchstore.Watcher, f filter, mark bool, m *Metrics, ended func()) *stream {
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{source: source, metrics: m, out: make(chan watch.Event, ahead), cancel: cancel, ended: ended}
	go func() {
		// One that panics ends, and its receiver asks again.
		if fault := recovered.Do(func() { s.run(ctx, f, mark) }); fault != nil {
			klog.FromContext(ctx).Error(fault, "A watch panicked", "resource", source.Resource(), "stack", recovered.StackOf(fault))
			m.panicked("watches")
		}
	}()
	return s
}

// Stop implements watch.Interface.
func (s *stream) Stop() { s.cancel() }

// ResultChan implements watch.Interface.
func (s *stream) ResultChan() <-chan watch.Event { return s.out }

func (s *stream) run(ctx context.Context, f filter, mark bool) {
	defer close(s.out)
	defer s.ended()
	defer s.source.Stop()
	taken := make([]watchstore.Event, ahead)
	for {
		n, err := s.source.Take(ctx, taken)
		if err != nil {
			s.metrics.ended(s.source.Resource(), err)
			return
		}
		for i := range taken[:n] {
			event, ok := outgoing(&taken[i], f, mark)
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
		clear(taken[:n])
	}
}

// outgoing is an event as the server encodes it; false means that the client did not ask for it.
func outgoing(e *watchstore.Event, f filter, mark bool) (watch.Event, bool) {
	if e.Type == watch.Bookmark {
		if mark {
			e.Object.(metav1.Object).SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		}
		return watch.Event{Type: e.Type, Object: e.Object}, true
	}
	if !f.wants(e.Object.(metav1.Object).GetName()) {
		return watch.Event{}, false
	}
	if e.Frames == nil {
		return watch.Event{Type: e.Type, Object: e.Object}, true
	}
	return watch.Event{Type: e.Type, Object: &encodedOnce{e.Object, e.Frames}}, true
}

// encodedOnce is an object that many clients are sent: it is encoded once for each kind of event
// and media type.
type encodedOnce struct {
	runtime.Object
	frames *watchstore.Frames
}

var _ runtime.CacheableObject = (*encodedOnce)(nil)

// GetObject implements runtime.CacheableObject.
func (o *encodedOnce) GetObject() runtime.Object { return private(o.Object) }

// CacheEncode implements runtime.CacheableObject.
func (o *encodedOnce) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	data, err := o.frames.Encode(string(id), func(w io.Writer) error { return encode(o.GetObject(), w) })
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
