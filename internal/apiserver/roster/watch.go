package roster

import (
	"context"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// WatchOptions say how a watch begins.
type WatchOptions struct {
	// Position is where to go on; empty begins with all Pods that there are.
	Position string
	// Marks has the bookmark that follows them say that it does.
	Marks bool
	// Indexmark wants that bookmark at all.
	Bookmark bool
	// Ended is called when the watch has ended.
	Ended func()
}

// Watch begins to watch the Pods of a Node, until ctx ends or it is stopped. It fails with
// ErrNotReady or ErrExpired, and then Ended is not called.
func (b *Index) Watch(ctx context.Context, name string, o WatchOptions) (watch.Interface, error) {
	if _, complete := b.source(); !complete {
		return nil, ErrNotReady
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{index: b, cancel: cancel, out: make(chan watch.Event)}
	b.mu.Lock()
	w.node = b.node(name)
	w.node.watches++
	b.mu.Unlock()
	leave := func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		w.node.watches--
		b.drop(name, w.node)
	}
	var begin []change
	if o.Position == "" {
		begin, w.position = b.all(name)
	} else {
		position, err := strconv.ParseUint(o.Position, 10, 64)
		if err == nil {
			_, _, err = b.since(w.node, position)
		}
		if err != nil {
			leave()
			cancel()
			return nil, ErrExpired
		}
		w.position = position
	}
	go func() {
		defer o.Ended()
		defer leave()
		defer close(w.out)
		// One that panics ends, and its receiver asks again.
		if fault := recovered.Do(func() { w.run(ctx, begin, o) }); fault != nil {
			klog.FromContext(ctx).Error(fault, "A watch of the Pods of a Node panicked", "node", name, "stack", recovered.StackOf(fault))
		}
	}()
	return w, nil
}

// watcher is a watch. Its position is that of its goroutine.
type watcher struct {
	index    *Index
	node     *node
	position uint64
	cancel   context.CancelFunc
	out      chan watch.Event
}

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.cancel() }

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.out }

func (w *watcher) run(ctx context.Context, begin []change, o WatchOptions) {
	for _, c := range begin {
		if !w.send(ctx, watch.Event{Type: c.kind, Object: c.object()}) {
			return
		}
	}
	if o.Position == "" && o.Bookmark {
		mark := &analysis.LocalPod{}
		mark.ResourceVersion = formatPosition(w.position)
		if o.Marks {
			mark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		}
		if !w.send(ctx, watch.Event{Type: watch.Bookmark, Object: mark}) {
			return
		}
	}
	for {
		changes, more, err := w.index.since(w.node, w.position)
		if err != nil {
			expired := apierrors.NewResourceExpired(err.Error()).Status()
			expired.Code = http.StatusGone
			w.send(ctx, watch.Event{Type: watch.Error, Object: &expired})
			return
		}
		for _, c := range changes {
			if !w.send(ctx, watch.Event{Type: c.kind, Object: c.object()}) {
				return
			}
			w.position = c.revision
		}
		if len(changes) > 0 {
			continue
		}
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}

func (w *watcher) send(ctx context.Context, e watch.Event) bool {
	select {
	case w.out <- e:
		return true
	case <-ctx.Done():
		return false
	}
}
