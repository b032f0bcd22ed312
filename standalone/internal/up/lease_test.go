package up

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/controller"
)

// TestOneControllerWorks: while another process holds the lease a controller waits and says for
// whom, and it works when that one lets go. Nobody asked for a lease.
func TestOneControllerWorks(t *testing.T) {
	err := Run(t.Context(), config(t, nil), func(ctx context.Context, s Session) error {
		c := adminClient(t, s.RestConfig)
		holder, lasts, now := "nephele up", int32(600), metav1.NowMicro()
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "nephele-controller"},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &lasts, AcquireTime: &now, RenewTime: &now}}
		if err := c.Create(ctx, lease); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		ready, done, told := make(chan struct{}), make(chan struct{}), make(chan string, 10)
		go func() {
			defer close(done)
			err := controller.Run(ctx, rest.CopyConfig(s.RestConfig), controller.Options{Log: logr.Discard(), Ready: func() { close(ready) },
				Lease: controller.LeaseOptions{Waits: func(holder string) { told <- holder }}})
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}()
		defer func() { cancel(); <-done }()
		select {
		case got := <-told:
			if got != holder {
				t.Errorf("the lease is said to be held by %q, want %q", got, holder)
			}
		case <-ready:
			t.Error("two work at a time")
		case <-time.After(2 * time.Minute):
			t.Error("it does not name the process that it waits for")
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
			return err
		}
		nobody := ""
		lease.Spec.HolderIdentity = &nobody
		if err := c.Update(ctx, lease); err != nil {
			return err
		}
		select {
		case <-ready:
		case <-time.After(2 * time.Minute):
			t.Error("it does not work when the lease is free")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
