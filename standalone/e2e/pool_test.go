package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

// A start of a control plane costs more processor time than most tests spend on one. So tests that
// need no flags borrow one that other tests have used before. It has nothing but what a start
// makes: all else is deleted when it is given back, and the test fails if something stays.

// poolSize is how many control planes there are. A test that waits for one keeps one of the seats
// of the tests that run at the same time.
const poolSize = 2

// pool hands control planes from test to test; nil is one that is still to be started.
var pool = func() chan *cluster {
	c := make(chan *cluster, poolSize)
	for range poolSize {
		c <- nil
	}
	return c
}()

// pooled is what is known of a cluster of the pool.
type pooled struct {
	// first is what is there while no test has it.
	first map[object]types.UID
	// due says that a test has it.
	due bool
}

// object names an object of a cluster.
type object struct {
	schema.GroupVersionResource
	namespace, name string
}

// pooledCluster is newCluster for tests that need no flags. What the test has made goes when the
// test ends. Cleanups run from the last to the first, and the accounts of a test are given back
// only while their cloud is there: a test that starts one calls c.giveBack before it stops.
func pooledCluster(t *testing.T) *cluster {
	t.Helper()
	c := <-pool
	if c == nil {
		c = stand(t)
	}
	c.t, c.pooled.due = t, true
	t.Cleanup(func() {
		if c.giveBack(); t.Failed() {
			c.printLogs()
			c.stop()
			_ = os.RemoveAll(c.dir) // that of a cluster that has failed
			c = nil
		}
		pool <- c
	})
	return c
}

// stand starts a cluster for the pool.
func stand(t *testing.T) *cluster {
	t.Helper()
	started := false
	defer func() {
		if !started {
			pool <- nil
		}
	}()
	dir, err := os.MkdirTemp("", "nephele-e2e-")
	must(t, err)
	c := &cluster{t: t, dir: dir, listen: freeAddress(t), pooled: &pooled{}}
	defer func() {
		if !started {
			c.printLogs()
			c.stop()
			_ = os.RemoveAll(dir) // nothing was kept
		}
	}()
	c.run()
	eventually(t, "what a start makes is there", func(ctx context.Context) (bool, string) {
		var tiers v1beta1.TierList
		now, err := c.contents(ctx)
		err = errors.Join(err, c.client.List(ctx, &tiers))
		settled := err == nil && len(tiers.Items) == 6 && maps.Equal(now, c.pooled.first)
		c.pooled.first = now
		return settled, fmt.Sprint(err, len(tiers.Items))
	})
	started = true
	return c
}

// giveBack deletes what the test that has borrowed the cluster has made, and waits until it is
// gone. It does nothing for a cluster that is the test's own.
func (c *cluster) giveBack() {
	if c.pooled == nil || !c.pooled.due || c.t.Failed() {
		return
	}
	c.t.Helper()
	c.pooled.due = false
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit) // the test's own context has ended
	defer cancel()
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		left, err := c.deleteRest(ctx)
		if err == nil && len(left) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			c.t.Errorf("what the test has made cannot be deleted: %v %v", left, err)
			return
		case <-time.After(pause):
		}
	}
}

// deleteRest deletes what was not there at first, and returns what is there still.
func (c *cluster) deleteRest(ctx context.Context) ([]object, error) {
	now, err := c.contents(ctx)
	if err != nil {
		return nil, err
	}
	_, all, err := c.generic()
	if err != nil {
		return nil, err
	}
	var left []object
	var errs []error
	for o, uid := range now {
		was, there := c.pooled.first[o]
		if there && was != uid {
			errs = append(errs, fmt.Errorf("%v is another than at first", o))
		}
		if there {
			continue
		}
		left = append(left, o)
		if err := all.Resource(o.GroupVersionResource).Namespace(o.namespace).Delete(ctx, o.name, *metav1.NewDeleteOptions(0)); !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	for o := range c.pooled.first {
		if _, there := now[o]; !there {
			errs = append(errs, fmt.Errorf("%v is gone", o))
		}
	}
	return left, errors.Join(errs...)
}

// generic are clients for all kinds.
func (c *cluster) generic() (discovery.DiscoveryInterface, metadata.Interface, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "kubeconfig"))
	if err != nil {
		return nil, nil, err
	}
	cfg.QPS, cfg.Burst, cfg.WarningHandler = 500, 1000, rest.NoWarnings{}
	kinds, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, nil, err
	}
	all, err := metadata.NewForConfig(cfg)
	return kinds, all, err
}

// contents are the objects of a cluster, but for what the API server and the controller keep for
// themselves.
func (c *cluster) contents(ctx context.Context) (map[object]types.UID, error) {
	kinds, all, err := c.generic()
	if err != nil {
		return nil, err
	}
	lists, err := kinds.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	out := map[object]types.UID{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, kind := range list.APIResources {
			gvr := gv.WithResource(kind.Name)
			if !slices.Contains(kind.Verbs, "list") || !slices.Contains(kind.Verbs, "delete") || ownKind(gvr) {
				continue
			}
			found, err := all.Resource(gvr).List(ctx, metav1.ListOptions{})
			if err != nil && !apierrors.IsNotFound(err) { // a kind that goes
				return nil, fmt.Errorf("list %s: %w", kind.Name, err)
			}
			for _, o := range found.Items {
				if o.Namespace != "kube-system" || !slices.Contains(ownNames, o.Name) {
					out[object{gvr, o.Namespace, o.Name}] = o.UID
				}
			}
		}
	}
	return out, nil
}

// ownNames are Secrets and ConfigMaps in which the controller keeps what it needs at some time.
var ownNames = []string{"nephele-history-key", "nephele-history-keys", "nephele-record-key", "nephele-host-authority", "nephele-instance"}

// ownKind are the kinds of objects that the API server and the controller make and remove by
// themselves at any time.
func ownKind(of schema.GroupVersionResource) bool {
	switch of.Group {
	case "flowcontrol.apiserver.k8s.io", "coordination.k8s.io", "apiregistration.k8s.io", "events.k8s.io", "discovery.k8s.io":
		return true
	case "nephele.io":
		return true // what policies were, which only the controller may delete
	case "crd.antrea.io":
		return of.Resource == "antreacontrollerinfos"
	case "networking.k8s.io":
		return of.Resource == "servicecidrs" || of.Resource == "ipaddresses"
	}
	return of.Group == "" && (of.Resource == "events" || of.Resource == "endpoints")
}

// endPool ends the clusters of the pool, in order where that does not take long.
func endPool() {
	for range poolSize {
		select {
		case c := <-pool:
			if c == nil {
				continue
			}
			_ = c.process.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
			select {
			case <-c.process.exited:
			case <-time.After(time.Minute):
				_ = c.process.cmd.Process.Kill()
				<-c.process.exited
			}
			_ = os.RemoveAll(c.dir) // a directory for temporary files
		default: // of a test that did not end
		}
	}
}
