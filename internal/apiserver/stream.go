package apiserver

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// ahead is how many events are taken from the store before the client has received them: enough to fill network packets,
// few enough that most of what a slow client has not seen yet is still merged in the store.
const ahead = 32

// stream passes the events of one watch of the store on to the server.
type stream struct {
	source *watchstore.Watcher
	out    chan watch.Event
	cancel context.CancelFunc
}

// startStream begins to pass on what source delivers. It ends when ctx ends, when it is stopped, or when the store cuts the
// receiver off; then the channel is closed.
func startStream(ctx context.Context, source *watchstore.Watcher, f filter, mark bool) *stream {
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{source: source, out: make(chan watch.Event, ahead), cancel: cancel}
	go s.run(ctx, f, mark)
	return s
}

// Stop implements watch.Interface.
func (s *stream) Stop() { s.cancel() }

// ResultChan implements watch.Interface.
func (s *stream) ResultChan() <-chan watch.Event { return s.out }

func (s *stream) run(ctx context.Context, f filter, mark bool) {
	defer close(s.out)
	defer s.source.Stop()
	for {
		event, err := s.source.Next(ctx)
		if err != nil {
			return
		}
		object := private(event.Object)
		meta := object.(metav1.Object)
		switch {
		case event.Type == watch.Bookmark && mark:
			meta.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		case event.Type != watch.Bookmark && !f.wants(meta.GetName()):
			continue
		}
		select {
		case s.out <- watch.Event{Type: event.Type, Object: object}:
		case <-ctx.Done():
			return
		}
	}
}
