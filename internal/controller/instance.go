package controller

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nephele-io/nephele/internal/cloud/realize"
	"github.com/nephele-io/nephele/internal/cloud/tenure"
)

// The bounds of --instance-heartbeat.
const (
	DefaultHeartbeat  = 20 * time.Second
	shortestHeartbeat = time.Second
)

// InstanceOptions say how this process makes itself known to others with the same cluster id.
type InstanceOptions struct {
	// Heartbeat is the longest time in which it shows that it lives; 0 means the default.
	Heartbeat time.Duration
}

// newEpoch names this process.
func newEpoch() string { return strings.ToLower(rand.Text()[:16]) }

// instance returns what the realizer is to know of this process.
func (o InstanceOptions) instance(mgr manager.Manager, epoch string) (*realize.Instance, error) {
	if o.Heartbeat == 0 {
		o.Heartbeat = DefaultHeartbeat
	}
	if o.Heartbeat < shortestHeartbeat || o.Heartbeat > tenure.LongestHeartbeat {
		return nil, fmt.Errorf("--instance-heartbeat %s: must be from %s to %s", o.Heartbeat, shortestHeartbeat, tenure.LongestHeartbeat)
	}
	return &realize.Instance{Epoch: epoch, Heartbeat: o.Heartbeat,
		Register: realize.ConfigMapRegister{Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Namespace: APINamespace}}, nil
}
