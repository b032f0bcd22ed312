// Package counters reads what an Antrea Controller has counted for the policies of a cluster, from
// the statistics that it serves, so that a member can send it to its hub.
//
// It owns the last reading, and reads only while there is a caller. A reading that fails changes
// nothing.
// All methods may be called from anywhere. Start may be called once.
package counters

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	statsv1alpha1 "github.com/nephele-io/nephele/api/stats/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
)

// pause is how often the statistics are read: as often as a member sends them.
const pause = 10 * time.Second

// Counters are what was counted. See the package comment; use New.
type Counters struct {
	live  client.Reader
	clock clock.WithTicker
	log   logr.Logger

	mu    sync.Mutex
	asked bool
	all   map[key]wire.Counted
}

// key names a policy: its kind, and itself.
type key struct {
	kind string
	client.ObjectKey
}

// New returns Counters that have read nothing.
func New(live client.Reader, clk clock.WithTicker, log logr.Logger) *Counters {
	return &Counters{live: live, clock: clk, log: log, all: map[key]wire.Counted{}}
}

// Start reads until ctx ends. It is a manager.Runnable.
func (c *Counters) Start(ctx context.Context) error {
	ticker := c.clock.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		c.mu.Lock()
		asked := c.asked
		c.asked = false
		c.mu.Unlock()
		if !asked {
			continue
		}
		if err := c.read(ctx); err != nil && ctx.Err() == nil {
			c.log.V(1).Info("Antrea's statistics cannot be read; the hub keeps what was counted before", "reason", err.Error())
		}
	}
}

// read reads all that was counted.
func (c *Counters) read(ctx context.Context) error {
	var clusters statsv1alpha1.AntreaClusterNetworkPolicyStatsList
	var antrea statsv1alpha1.AntreaNetworkPolicyStatsList
	var kubernetes statsv1alpha1.NetworkPolicyStatsList
	for _, list := range []client.ObjectList{&clusters, &antrea, &kubernetes} {
		err := c.live.List(ctx, list)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue // nothing is counted there
		}
		if err != nil {
			return fmt.Errorf("list %T: %w", list, err)
		}
	}
	all := map[key]wire.Counted{}
	for i := range clusters.Items {
		s := &clusters.Items[i]
		all[key{"c", client.ObjectKeyFromObject(s)}] = counted(s.TrafficStats, s.RuleTrafficStats)
	}
	for i := range antrea.Items {
		s := &antrea.Items[i]
		all[key{"a", client.ObjectKeyFromObject(s)}] = counted(s.TrafficStats, s.RuleTrafficStats)
	}
	for i := range kubernetes.Items {
		s := &kubernetes.Items[i]
		all[key{"k", client.ObjectKeyFromObject(s)}] = counted(s.TrafficStats, nil)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = all
	return nil
}

func counted(total statsv1alpha1.TrafficStats, rules []statsv1alpha1.RuleTrafficStats) wire.Counted {
	out := wire.Counted{Count: wire.Count(total)}
	for i := range rules[:min(len(rules), wire.MostRules)] {
		out.Rules = append(out.Rules, wire.RuleCount{Name: rules[i].Name, Count: wire.Count(rules[i].TrafficStats)})
	}
	return out
}

// Of is what was counted for a policy; false if nothing was.
func (c *Counters) Of(o client.Object) (wire.Counted, bool) {
	kind := ""
	switch o.(type) {
	case *v1beta1.ClusterNetworkPolicy:
		kind = "c"
	case *v1beta1.NetworkPolicy:
		kind = "a"
	case *networkingv1.NetworkPolicy:
		kind = "k"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = true
	out, is := c.all[key{kind, client.ObjectKeyFromObject(o)}]
	return out, is
}
