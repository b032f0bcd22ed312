package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nephele-io/nephele/internal/clusterset/hub"
	"github.com/nephele-io/nephele/internal/clusterset/member"
	"github.com/nephele-io/nephele/internal/control"
)

// set is what this process has to do with other clusters. It does nothing where there are neither
// Clusters nor a Membership.
type set struct {
	hub    *hub.Hub
	member *member.Member
}

// newSet makes both sides of a set. They hear of policies by what is joined later: see joins.
func newSet(ctx context.Context, mgr manager.Manager, clk clock.WithTicker, policies *latePolicies, o Options) (*set, error) {
	id, err := ClusterID(ctx, mgr.GetAPIReader())
	if err != nil {
		return nil, err
	}
	return &set{
		hub: hub.New(hub.Options{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Informers: mgr.GetCache(), Policies: policies, Clock: clk, Log: o.Log.WithName("hub"),
			Program: o.Version, Epoch: o.epoch,
		}),
		member: member.New(member.Options{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Informers: mgr.GetCache(), Policies: policies, Clock: clk, Random: rand.Float64,
			Log: o.Log.WithName("member"), Namespace: APINamespace, Program: o.Version, Epoch: o.epoch, ClusterID: id,
		}),
	}, nil
}

// latePolicies breaks the circle between the policy controller, which waits for what is on record
// of other clusters, and those who give it that; Controller is set before anything runs.
type latePolicies struct{ *control.Controller }

// start adds both sides to the manager.
func (s *set) start(mgr manager.Manager) error {
	if err := errors.Join(mgr.Add(s.hub), mgr.Add(s.member)); err != nil {
		return fmt.Errorf("start what other clusters are told: %w", err)
	}
	return nil
}
