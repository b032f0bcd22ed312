package apiserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/apiserver/limits"
	"github.com/nephele-io/nephele/internal/apiserver/storage"
	"github.com/nephele-io/nephele/internal/apiserver/turns"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// Reviews answers the reviews of analysis.nephele.io.
type Reviews interface {
	// Review fills in the status of a FlowReview, a ReachReview, an EffectiveRules, a PlanReview or
	// a FlowQuery, with what the caller may see. An error that is a WrongQuestion is the caller's
	// fault; it is watchstore.ErrNotReady before there is anything to look at.
	Review(ctx context.Context, review runtime.Object, sight Sight) error
}

// WrongQuestion is an error about a question that cannot be answered.
type WrongQuestion interface {
	error
	WrongQuestion()
}

// Sight is what a caller may see. Namespace may be called by many goroutines at once.
type Sight struct {
	// All lets him see everything.
	All bool
	// Namespace reports whether he may list the network policies of a Namespace.
	Namespace func(name string) bool
	// Cluster reports whether the caller may list the policies of the cluster.
	Cluster bool
	// May reports whether he may do something to an object.
	May func(verb, group, resource, namespace, name string) bool
}

// The bounds of reviews. A review of a large cluster keeps a core busy for seconds.
const (
	// reviewsAtOnce are worked on at the same time, of one user one, and reviewsKept more of users
	// who may see the whole cluster. reviewsWaiting more wait; of all of them reviewsOfOne may be
	// one user's.
	reviewsAtOnce  = 2
	reviewsKept    = 1
	reviewsWaiting = 20
	reviewsOfOne   = 4
	// reviewPatience bounds how long one waits for its turn.
	reviewPatience = 20 * time.Second
	// plansAtOnce is how many PlanReviews are worked on at the same time; they have turns of their
	// own, so that smaller questions never wait for them. planPatience bounds how long one waits
	// and is worked on.
	plansAtOnce  = 1
	planPatience = 40 * time.Second
	// mostAsked is the number of Namespaces that are asked about for one review; those beyond are
	// not shown.
	mostAsked = 1000
	// mostWrites is the number of objects that are asked about for one review; beyond them the
	// caller may do nothing.
	mostWrites = 2000
)

// reviews is what the storages of all reviews share.
type reviews struct {
	answers Reviews
	access  authorizer.Authorizer
	held    *limits.Counter[string]
	turns   *turns.Turns
	// patience bounds how long one waits for its turn, and is worked on.
	patience time.Duration
	metrics  *Metrics
}

// newReviews are the resources of analysis.nephele.io.
func newReviews(o Options, g gate) map[string]rest.Storage {
	r := &reviews{
		answers: o.Reviews, access: o.Access.Authorizer, held: limits.NewCounter[string](reviewsAtOnce+reviewsKept+reviewsWaiting, reviewsOfOne),
		turns: turns.New(reviewsAtOnce, reviewsKept), patience: reviewPatience, metrics: o.Metrics,
	}
	plans := *r
	plans.held, plans.turns, plans.patience = limits.NewCounter[string](plansAtOnce+reviewsKept+reviewsWaiting, reviewsOfOne), turns.New(plansAtOnce, reviewsKept), planPatience
	resource := func(plural, singular string, kind func() runtime.Object) storage.Resource {
		return storage.New(schema.GroupResource{Group: analysis.GroupName, Resource: plural}, singular, false, kind)
	}
	kind := func(plural, singular string, kind func() runtime.Object) rest.Storage {
		return &reviewed{resource(plural, singular, kind), r}
	}
	out := map[string]rest.Storage{
		"flowreviews":    kind("flowreviews", "flowreview", func() runtime.Object { return &analysis.FlowReview{} }),
		"reachreviews":   kind("reachreviews", "reachreview", func() runtime.Object { return &analysis.ReachReview{} }),
		"effectiverules": kind("effectiverules", "effectiverules", func() runtime.Object { return &analysis.EffectiveRules{} }),
		"planreviews":    &reviewed{resource("planreviews", "planreview", func() runtime.Object { return &analysis.PlanReview{} }), &plans},
	}
	if o.Traffic != nil {
		out["flowqueries"] = kind("flowqueries", "flowquery", func() runtime.Object { return &analysis.FlowQuery{} })
		out["trafficreports"] = newTrafficReports(o, g)
	}
	return out
}

// reviewed serves one kind of review.
type reviewed struct {
	storage.Resource
	*reviews
}

var _ rest.Creater = (*reviewed)(nil)

// Create implements rest.Creater: it answers, and keeps nothing.
func (r *reviewed) Create(ctx context.Context, object runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewInternalError(errors.New("the request names no caller"))
	}
	if validate != nil {
		if err := validate(ctx, object); err != nil {
			return nil, err
		}
	}
	leave, full, own := r.held.Enter(limits.Identity(caller))
	if full {
		r.metrics.limit("reviews")
		why := "as many reviews are waiting as may be"
		if own {
			why = fmt.Sprintf("%d reviews of %q are waiting, which is as many as may be", reviewsOfOne, caller.GetName())
		}
		return nil, apierrors.NewTooManyRequests(why+"; try again later", int(limits.Retry/time.Second))
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	sight, failed := r.sight(ctx, caller)
	done, ok := r.turns.Take(ctx, limits.Identity(caller), sight.All)
	if !ok {
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("the turn of this review has not come within %s; try again later", r.patience), int(limits.Retry/time.Second))
	}
	defer done()
	err := errors.Join(recovered.Call(func() error { return r.answers.Review(ctx, object, sight) }), failed())
	if stack := recovered.StackOf(err); stack != "" { // the question takes nothing else with it
		r.metrics.panicked("reviews")
		klog.FromContext(ctx).Error(err, "A review panicked", "kind", fmt.Sprintf("%T", object), "caller", caller.GetName(), "stack", stack)
		return nil, apierrors.NewInternalError(err)
	}
	var wrong WrongQuestion
	switch {
	case errors.As(err, &wrong):
		return nil, apierrors.NewBadRequest(wrong.Error())
	case err != nil && ctx.Err() != nil:
		return nil, apierrors.NewTimeoutError(fmt.Sprintf("this review could not be answered within %s: ask for less", r.patience), int(limits.Retry/time.Second))
	case err != nil:
		return nil, queryError(err)
	}
	return object, nil
}

// sight asks what a caller may see: first whether that is everything, then about each Namespace
// when it matters. failed returns what could not be asked; the answer is worth nothing then.
func (r *reviewed) sight(ctx context.Context, caller user.Info) (sight Sight, failed func() error) {
	var errs error
	var failing sync.Mutex
	authorized := func(a authorizer.AttributesRecord) bool {
		a.User, a.ResourceRequest = caller, true
		decision, _, err := r.access.Authorize(ctx, a)
		if err != nil && decision != authorizer.DecisionAllow {
			failing.Lock()
			defer failing.Unlock()
			if errs == nil {
				errs = fmt.Errorf("ask what %q may do: %w", caller.GetName(), err)
			}
		}
		return decision == authorizer.DecisionAllow
	}
	may := func(resource, namespace string) bool {
		return authorized(authorizer.AttributesRecord{Verb: "list", APIGroup: v1beta1.GroupName, APIVersion: "v1beta1", Resource: resource, Namespace: namespace})
	}
	writes := 0
	sight.May = func(verb, group, resource, namespace, name string) bool {
		if writes++; writes > mostWrites {
			return false
		}
		return authorized(authorizer.AttributesRecord{Verb: verb, APIGroup: group, APIVersion: "*", Resource: resource, Namespace: namespace, Name: name})
	}
	sight.Cluster = may("clusternetworkpolicies", "")
	if may("networkpolicies", "") {
		sight.All, sight.Namespace = sight.Cluster, func(string) bool { return true }
		return sight, func() error { return errs }
	}
	known := map[string]bool{}
	var mu sync.Mutex
	sight.Namespace = func(name string) bool {
		mu.Lock()
		defer mu.Unlock()
		visible, asked := known[name]
		if !asked && len(known) < mostAsked {
			visible = may("networkpolicies", name)
			known[name] = visible
		}
		return visible
	}
	return sight, func() error { return errs }
}
