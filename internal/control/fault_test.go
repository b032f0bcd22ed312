package control

import (
	"context"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/platform/recovered"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// TestPanicsStopNobodyElse: a question that panics fails alone, and an object that nobody can read
// is left out; the loop goes on.
func TestPanicsStopNobodyElse(t *testing.T) {
	w := newTestWorld(t)
	c := w.Controller
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer stop()
	eventually(t, "the first round", func() bool {
		_, _, _, err := c.Computed(ctx)
		return err == nil
	})
	err := c.query(ctx, func(*compute.Engine) { panic("an odd question") })
	if recovered.StackOf(err) == "" || !strings.Contains(err.Error(), "an odd question") {
		t.Errorf("%v", err)
	}
	// A kind with an object of another kind is a mistake that panics.
	c.handler(kindPolicy).OnAdd(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "odd", UID: "odd"}}, false)
	informers := c.Options.Informers.(*handInformers)
	informers.of(&v1beta1.ClusterGroup{}).Add(&v1beta1.ClusterGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "g", UID: "u"}, Spec: v1beta1.GroupSpec{PodSelector: &metav1.LabelSelector{}},
	})
	eventually(t, "the group that comes after", func() bool {
		got, err := c.GroupMembers(ctx, key("", "g"), v1beta2.PaginationGetOptions{}, everywhere)
		return err == nil && got != nil
	})
	if err := c.Faulty(); err != nil {
		t.Errorf("%v", err)
	}
}

// TestFaultyRound: if computing itself panics, what was published stays, and it is told.
func TestFaultyRound(t *testing.T) {
	w := newTestWorld(t)
	w.put(vm(t, "a", "db", "cloud-a"))
	w.put(allowSSH(t, "p", "db", 1))
	w.settle()
	before := w.served("cloud-a")
	w.Controller.engine = nil // the next round panics
	w.put(vm(t, "b", "db", "cloud-a"))
	w.Controller.guardedRound()
	if err := w.Controller.Faulty(); recovered.StackOf(err) == "" || !strings.Contains(err.Error(), "policies are not computed any more since a fault of Nephele") {
		t.Errorf("%v", err)
	}
	w.Controller.guardedRound()
	if n := w.served("cloud-a"); n != before || n == 0 {
		t.Errorf("%d objects are served, want the %d of before", n, before)
	}
}
