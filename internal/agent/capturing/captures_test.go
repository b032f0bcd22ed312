package capturing

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
)

// picky is a kernel that does not take one PacketCapture.
type picky struct{ closed chan struct{} }

func (p *picky) Set(list []kernel.Chosen) error {
	if slices.ContainsFunc(list, func(c kernel.Chosen) bool { return c.ID == "bad" }) {
		return errors.New("not this one")
	}
	return nil
}

func (p *picky) Run(func(kernel.Captured)) error { <-p.closed; return nil }
func (p *picky) Close()                          { close(p.closed) }

// TestOneThatIsRefused: a PacketCapture that the kernel does not take ends, and another one runs.
func TestOneThatIsRefused(t *testing.T) {
	var mu sync.Mutex
	objects, source := map[string]*v1alpha1.PacketCapture{}, cachetesting.NewFakeControllerSource()
	for _, name := range []string{"bad", "good"} {
		o := &v1alpha1.PacketCapture{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		o.Spec.CaptureConfig.FirstN.Number = 1
		o.Status.Assigned = &v1alpha1.CaptureAssigned{Node: "node", SourceIP: "10.0.0.1"}
		objects[name] = o
		source.Add(o.DeepCopy())
	}
	changed := make(chan struct{}, 100)
	c := New(Options{Node: "node", Dir: t.TempDir(), PacketCaptures: source, Clock: clock.RealClock{}, Log: logr.Discard(),
		Open: func() (Capture, error) { return &picky{make(chan struct{})}, nil },
		Write: func(_ context.Context, name string, change func(*v1alpha1.PacketCapture) bool) error {
			mu.Lock()
			defer mu.Unlock()
			if change(objects[name]) {
				source.Modify(objects[name].DeepCopy())
				changed <- struct{}{}
			}
			return nil
		}})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	defer func() { stop(); <-ended }()
	is := func(name, kind string) bool {
		mu.Lock()
		defer mu.Unlock()
		return objects[name].Status.Condition(kind) != nil
	}
	for !is("bad", v1alpha1.PacketCaptureComplete) || !is("good", v1alpha1.PacketCaptureStarted) {
		select {
		case <-changed:
		case <-time.After(time.Minute):
			t.Fatal("nothing more is told")
		}
	}
	if is("good", v1alpha1.PacketCaptureComplete) {
		t.Errorf("the other one has ended, too: %+v", objects["good"].Status)
	}
}
