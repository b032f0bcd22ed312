package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	statsv1alpha1 "github.com/nephele-io/nephele/api/stats/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/apiserver/stats"
	"github.com/nephele-io/nephele/internal/clusterset/counters"
	"github.com/nephele-io/nephele/internal/clusterset/hub"
	"github.com/nephele-io/nephele/internal/clusterset/hub/questions"
	"github.com/nephele-io/nephele/internal/clusterset/member"
	"github.com/nephele-io/nephele/internal/clusterset/setmap"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/control"
	"github.com/nephele-io/nephele/internal/controller/clouds"
)

// set is what this process has to do with other clusters. It does nothing where there are neither
// Clusters nor a Membership.
type set struct {
	// hub is nil where an Antrea Controller computes the policies.
	hub    *hub.Hub
	member *member.Member
	// reviews answers questions about this cluster; nil where the API is not served.
	reviews atomic.Pointer[reviews]
	// book has what enforcers count; nil where the API is not served.
	book atomic.Pointer[stats.Book]
	// foreign is what an Antrea Controller counts, where one computes the policies.
	foreign *counters.Counters
}

// newSet makes both sides of a set. They hear of policies by what is joined later; with nil, an
// Antrea Controller computes the policies, and this can only be a member.
func newSet(ctx context.Context, mgr manager.Manager, clk clock.WithTicker, policies *latePolicies, proc *process) (*set, error) {
	id, err := clouds.ClusterID(ctx, mgr.GetAPIReader())
	if err != nil {
		return nil, err
	}
	s := &set{}
	options := member.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Informers: mgr.GetCache(), Counted: s.counted, Answers: s, Clock: clk, Random: rand.Float64,
		Log: proc.Log.WithName("member"), Namespace: APINamespace, Program: proc.Version, Epoch: proc.epoch, ClusterID: id,
	}
	if policies == nil {
		// Antrea's definitions may lack what a policy says: then it is refused.
		options.Client = client.WithFieldValidation(options.Client, metav1.FieldValidationStrict)
		s.foreign = counters.New(mgr.GetAPIReader(), clk, proc.Log.WithName("member"))
		options.Counted = s.foreign.Of
		s.member = member.New(options)
		// The hub's questions are answered by what the objects of the cluster mean: the copies as
		// objects of Antrea, and the workloads of other clusters in their peers as
		// ExternalEntities.
		answers, err := newReviews(ctx, mgr.GetCache(), mgr.GetCache(), mgr.GetAPIReader(), &alwaysChanged{}, id, func() error { return nil }, clk, proc)
		if err != nil {
			return nil, err
		}
		s.reviews.Store(answers)
		return s, nil
	}
	options.Policies = policies
	s.member = member.New(options)
	s.hub = hub.New(hub.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Informers: mgr.GetCache(), Policies: policies, Statistics: s, Clock: clk, Log: proc.Log.WithName("hub"),
		Program: proc.Version, Epoch: proc.epoch,
	})
	return s, nil
}

// alwaysChanged takes the place of a policy controller where there is none: each call is a change.
type alwaysChanged struct{ calls atomic.Uint64 }

// Heard implements heard.
func (a *alwaysChanged) Heard() uint64 { return a.calls.Add(1) }

// Flow implements member.Answers, as for a caller who may see everything.
func (s *set) Flow(ctx context.Context, spec analysis.FlowReviewSpec) (analysis.FlowReviewStatus, error) {
	r := s.reviews.Load()
	switch {
	case r == nil:
		return analysis.FlowReviewStatus{}, errors.New("nothing answers questions there")
	case questions.Asks(&spec):
		return analysis.FlowReviewStatus{}, errors.New("a member answers for itself alone")
	}
	q := &analysis.FlowReview{Spec: spec}
	err := r.Review(ctx, q, apiserver.Sight{All: true, Cluster: true, Namespace: func(string) bool { return true }})
	return q.Status, err
}

// Sides implements member.Answers, as for a caller who may see everything.
func (s *set) Sides(ctx context.Context, q *setmap.Question) (json.RawMessage, error) {
	r := s.reviews.Load()
	if r == nil {
		return nil, errors.New("nothing answers questions there")
	}
	return r.sides(ctx, q)
}

// counted is what was counted for a copy of a policy of the hub.
func (s *set) counted(o client.Object) (wire.Counted, bool) {
	kind := v1beta2.AntreaNetworkPolicy
	switch o.(type) {
	case *antreav1beta1.ClusterNetworkPolicy:
		kind = v1beta2.AntreaClusterNetworkPolicy
	case *networkingv1.NetworkPolicy:
		kind = v1beta2.K8sNetworkPolicy
	}
	book := s.book.Load()
	if book == nil {
		return wire.Counted{}, false
	}
	c, is := book.Get(kind, o.GetNamespace(), o.GetName())
	out := wire.Counted{Count: wire.Count(c.Total)}
	for i := range c.Rules {
		out.Rules = append(out.Rules, wire.RuleCount{Name: c.Rules[i].Name, Count: wire.Count(c.Rules[i].TrafficStats)})
	}
	return out, is
}

// PutElsewhere implements hub.Statistics.
func (s *set) PutElsewhere(cluster, epoch string, c *wire.Counted) {
	book := s.book.Load()
	if book == nil {
		return
	}
	rules := make(map[string]statsv1alpha1.TrafficStats, len(c.Rules))
	for i := range c.Rules {
		rules[c.Rules[i].Name] = statsv1alpha1.TrafficStats(c.Rules[i].Count)
	}
	book.PutElsewhere(cluster, epoch, types.UID(c.UID), statsv1alpha1.TrafficStats(c.Count), rules)
}

// DropElsewhere implements hub.Statistics.
func (s *set) DropElsewhere(cluster string) {
	if book := s.book.Load(); book != nil {
		book.DropElsewhere(cluster)
	}
}

// latePolicies breaks the circle between the policy controller, which waits for the records of
// other clusters, and the sources of these; Controller is set before anything runs.
type latePolicies struct{ *control.Controller }

// start adds both sides to the manager.
func (s *set) start(mgr manager.Manager) error {
	err := mgr.Add(s.member)
	if s.hub != nil {
		err = errors.Join(err, mgr.Add(s.hub))
	}
	if s.foreign != nil {
		err = errors.Join(err, mgr.Add(s.foreign))
	}
	if err != nil {
		return fmt.Errorf("start what other clusters are told: %w", err)
	}
	return nil
}
