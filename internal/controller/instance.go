package controller

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nephele-io/nephele/internal/cloud/realize/instance"
	"github.com/nephele-io/nephele/internal/cloud/realize/instance/register"
	"github.com/nephele-io/nephele/internal/cloud/tenure"
)

// The bounds of --instance-heartbeat and --instance-claim-pause.
const (
	DefaultHeartbeat  = 20 * time.Second
	shortestHeartbeat = time.Second

	DefaultClaimPause  = 2 * time.Second
	shortestClaimPause = 100 * time.Millisecond
	longestClaimPause  = time.Minute
)

// InstanceOptions say how this process makes itself known to others with the same cluster id.
type InstanceOptions struct {
	// Heartbeat is the longest time in which it shows that it lives; 0 means the default.
	Heartbeat time.Duration
	// ClaimPause is longer than it takes another controller from having read that a network is free
	// to having claimed it; 0 means the default.
	ClaimPause time.Duration
}

// newEpoch names this process.
func newEpoch() string { return strings.ToLower(rand.Text()[:16]) }

// instance returns what the realizer is to know of this process, and the pause after a claim.
func (o InstanceOptions) instance(mgr manager.Manager, epoch string) (*instance.Process, time.Duration, error) {
	if o.Heartbeat == 0 {
		o.Heartbeat = DefaultHeartbeat
	}
	if o.Heartbeat < shortestHeartbeat || o.Heartbeat > tenure.LongestHeartbeat {
		return nil, 0, fmt.Errorf("--instance-heartbeat %s: must be from %s to %s", o.Heartbeat, shortestHeartbeat, tenure.LongestHeartbeat)
	}
	if o.ClaimPause == 0 {
		o.ClaimPause = DefaultClaimPause
	}
	if o.ClaimPause < shortestClaimPause || o.ClaimPause > longestClaimPause {
		return nil, 0, fmt.Errorf("--instance-claim-pause %s: must be from %s to %s", o.ClaimPause, shortestClaimPause, longestClaimPause)
	}
	return &instance.Process{Epoch: epoch, Heartbeat: o.Heartbeat,
		Register: register.ConfigMap{Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Namespace: APINamespace}}, o.ClaimPause, nil
}
