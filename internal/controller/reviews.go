package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/inventory"
	"github.com/nephele-io/nephele/internal/clusterset/hub/questions"
	"github.com/nephele-io/nephele/internal/clusterset/setmap"
	"github.com/nephele-io/nephele/internal/controller/traffic"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/explain/redact"
	"github.com/nephele-io/nephele/internal/flows/live"
	"github.com/nephele-io/nephele/internal/kinds"
	"github.com/nephele-io/nephele/internal/platform/work"
	"github.com/nephele-io/nephele/internal/review"
)

// reviewAge is how old what a review is answered from may be while objects go on changing. Working
// it out takes a second of processor time for 10,000 VMs.
const reviewAge = 2 * time.Second

// reviewMost is how old it may be though nothing seems to have changed. Releases end by the clock
// alone, and it bounds what an event that is lost can do.
const reviewMost = time.Minute

// reviewWork is what one review may cost, in units of work.Budget: some seconds of processor time,
// and a hundred megabytes.
const reviewWork = 200_000_000

// aclAge is how old network ACLs may be. No event reports their changes, and reading them is a call
// to the cloud.
const aclAge = time.Minute

// reviews answers reviews from the caches of the process and what the inventory knows of clouds. Of
// a cloud only network ACLs are read, and no review changes anything.
type reviews struct {
	cached client.Reader
	// uncached reads what no informer follows, or follows only where it is installed.
	uncached client.Reader
	pods     toolscache.Store
	// clouds is nil where another process has the accounts.
	clouds *inventory.Inventory
	// cluster is the id under which we own objects in clouds.
	cluster string
	ready   func() error
	clock   clock.PassiveClock
	// work is what one answer may cost.
	work int64
	// traffic holds the connections that enforcers have reported; nil where there are no reports.
	traffic *traffic.Store
	// set is what there is of other clusters; nil in tests.
	set *set
	// kinds are those that reviews are answered from; policies counts what has happened to those
	// that policies are computed from, others what has to the rest.
	kinds    []kinds.Kind
	policies heard
	others   atomic.Uint64

	mu   sync.Mutex
	last *seen
	// acls are the network ACLs that were read.
	acls map[scope]readACLs
}

// scope is a region of an account.
type scope struct{ account, region string }

// readACLs are the network ACLs of a region, or why there are none.
type readACLs struct {
	list []cloud.NetworkACL
	err  error
	at   time.Time
}

// seen is what reviews are answered from.
type seen struct {
	computed *explain.Computation
	unread   []string
	asOf     time.Time
	// changes tells whether it is still so.
	changes uint64
	// everything is the world of callers who may see everything.
	everything func() *explain.World
}

// wrongQuestion is an error that is the caller's.
type wrongQuestion struct{ error }

// WrongQuestion implements apiserver.WrongQuestion.
func (wrongQuestion) WrongQuestion() {}

// reviewedKinds are the kinds that reviews are answered from here.
func (o *Options) reviewedKinds() []kinds.Kind {
	return slices.DeleteFunc(kinds.Of(kinds.Explained), func(k kinds.Kind) bool { return o.NoClouds && k.Is(kinds.OfClouds) })
}

// heard is how the policy controller tells that something of what it computes from has changed.
type heard interface{ Heard() uint64 }

// newReviews follows what reviews are answered from: what the policy controller hears of by asking
// it, all else by informers. Ready fails before policies are computed.
func newReviews(
	ctx context.Context, in informers, cached, uncached client.Reader, policies heard, cluster string, ready func() error, clk clock.PassiveClock, proc *process,
) (*reviews, error) {
	r := &reviews{
		cached: cached, uncached: uncached, kinds: proc.reviewedKinds(), clouds: proc.clouds, cluster: cluster, ready: ready, clock: clk, work: reviewWork,
		policies: policies, acls: map[scope]readACLs{},
	}
	pods, err := in.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("reviews: watch Pods: %w", err)
	}
	holder, ok := pods.(toolscache.SharedInformer)
	if !ok {
		return nil, fmt.Errorf("reviews: the informer of Pods is a %T, which shows nobody what it holds", pods)
	}
	r.pods = holder.GetStore()
	changed := func(any) { r.others.Add(1) }
	for _, k := range r.kinds {
		if k.Is(kinds.Computed) {
			continue
		}
		informer, err := in.GetInformer(ctx, k.New(), cache.BlockUntilSynced(false))
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc: changed, DeleteFunc: changed,
				UpdateFunc: func(before, after any) {
					if !signOfLife(before, after) {
						changed(after)
					}
				},
			})
		}
		if meta.IsNoMatchError(err) && k.Is(kinds.Withheld) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reviews: watch %s: %w", k.Kind, err)
		}
	}
	return r, nil
}

// signOfLife reports whether an agent says no more than that it is still there. Every one says so
// each minute, and no answer depends on when.
func signOfLife(before, after any) bool {
	a, ok := before.(*antreav1beta1.AntreaAgentInfo)
	b, same := after.(*antreav1beta1.AntreaAgentInfo)
	return ok && same && a.UID == b.UID && a.Version == b.Version && a.NodeRef == b.NodeRef &&
		maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		slices.EqualFunc(a.AgentConditions, b.AgentConditions, func(a, b antreav1beta1.AgentCondition) bool {
			a.LastHeartbeatTime, b.LastHeartbeatTime = metav1.Time{}, metav1.Time{}
			return a == b
		})
}

// changes counts what has happened to objects.
func (r *reviews) changes() uint64 { return r.policies.Heard() + r.others.Load() }

// Review implements apiserver.Reviews.
func (r *reviews) Review(ctx context.Context, object runtime.Object, sight apiserver.Sight) error {
	if q, is := object.(*analysis.FlowQuery); is {
		return r.flows(ctx, q, sight)
	}
	if err := short(object); err != nil {
		return err
	}
	if err := r.ready(); err != nil {
		return err
	}
	if q, is := object.(*analysis.FlowReview); is && r.set != nil && questions.Asks(&q.Spec) {
		return r.asked(ctx, q, sight)
	}
	if q, is := object.(*analysis.ReachReview); is && r.set != nil && questions.AsksReach(&q.Spec) {
		return r.askedReach(ctx, q, sight)
	}
	s, err := r.look(ctx)
	if err != nil {
		return err
	}
	told := analysis.Seen{AsOf: metav1.NewMicroTime(s.asOf), Limited: !sight.All, Unread: s.unread}
	computation, world := s.computed, s.everything
	if !sight.All {
		// When it was looked, hangs on what others ask and change. What is older than reviewAge is
		// as it was then, and time itself is that of the question.
		computation = s.computed.For(redact.View{Namespace: sight.Namespace, Cluster: sight.Cluster})
		computation.Objects.At = r.clock.Now()
		world = func() *explain.World { return computation.World(false) }
		told.AsOf, told.Unread = metav1.NewMicroTime(computation.Objects.At.Add(-reviewAge)), nil
	}
	err = work.Within(func() error { return r.answer(ctx, s, object, computation, world, sight, told) })
	if errors.Is(err, work.ErrTooMuch) {
		return wrongQuestion{fmt.Errorf("%w: %s", err, narrower(object))}
	}
	if wrong := (*review.WrongError)(nil); errors.As(err, &wrong) {
		return wrongQuestion{wrong}
	}
	return err
}

// flows answers a question about connections that enforcers have reported.
func (r *reviews) flows(ctx context.Context, q *analysis.FlowQuery, sight apiserver.Sight) error {
	err := r.traffic.Query(ctx, q, live.Sight{All: sight.All, Cluster: sight.Cluster, Namespace: sight.Namespace})
	if about := (*live.Problem)(nil); errors.As(err, &about) {
		return wrongQuestion{err}
	}
	return err
}

// mostText is how many bytes a text of a question has: a name, an address, or a selector, which is
// held against every workload before any of the budget is spent.
const mostText = 1 << 10

// short fails for a question with a text that is longer.
func short(object runtime.Object) error {
	texts := map[string]string{}
	switch o := object.(type) {
	case *analysis.FlowReview:
		q := &o.Spec
		texts = map[string]string{"from": q.From, "to": q.To, "protocol": q.Protocol, "port": q.Port, "igmpGroup": q.IGMPGroup}
	case *analysis.ReachReview:
		q := &o.Spec
		texts = map[string]string{"from": q.From, "to": q.To, "protocol": q.Protocol, "port": q.Port, "members": q.Members, "groupBy": q.GroupBy}
	case *analysis.EffectiveRules:
		texts = map[string]string{"of": o.Spec.Of}
	case *analysis.PlanReview:
		texts = map[string]string{"account": o.Spec.Account}
	}
	for _, field := range slices.Sorted(maps.Keys(texts)) {
		if n := len(texts[field]); n > mostText {
			return wrongQuestion{fmt.Errorf("spec.%s: %d bytes; at most %d", field, n, mostText)}
		}
	}
	return nil
}

// asked answers a question about clusters of the set. Their answers are for callers who may see
// everything.
func (r *reviews) asked(ctx context.Context, q *analysis.FlowReview, sight apiserver.Sight) (err error) {
	if !sight.All {
		return errNotForAll
	}
	q.Status, err = r.set.hub.Flow(ctx, q.Spec)
	q.Status.Seen = analysis.Seen{AsOf: metav1.NewMicroTime(r.clock.Now())}
	if wrong := (*questions.WrongQuestion)(nil); errors.As(err, &wrong) {
		return wrongQuestion{wrong}
	}
	return err
}

// errNotForAll is why somebody is not answered about the set.
var errNotForAll = wrongQuestion{errors.New("questions about clusters of the set are for users who may read the network policies of all Namespaces and of the cluster")}

// askedReach is asked for many flows.
func (r *reviews) askedReach(ctx context.Context, q *analysis.ReachReview, sight apiserver.Sight) (err error) {
	if !sight.All {
		return errNotForAll
	}
	q.Status, err = r.set.hub.Reach(ctx, q.Spec)
	q.Status.AsOf = metav1.NewMicroTime(r.clock.Now())
	if wrong := (*questions.WrongQuestion)(nil); errors.As(err, &wrong) {
		return wrongQuestion{wrong}
	}
	return err
}

// sides answers what the hub of a set asks for its map.
func (r *reviews) sides(ctx context.Context, q *setmap.Question) (answer json.RawMessage, err error) {
	if err := r.ready(); err != nil {
		return nil, err
	}
	s, err := r.look(ctx)
	if err != nil {
		return nil, err
	}
	err = work.Within(func() error {
		answer, err = review.Sides(s.everything().Within(work.New(r.work, ctx.Err)), q)
		return err
	})
	if errors.Is(err, work.ErrTooMuch) {
		err = fmt.Errorf("%w: narrow it with from and to, protocol and port", err)
	}
	return answer, err
}

// narrower says how to ask for less.
func narrower(object runtime.Object) string {
	switch o := object.(type) {
	case *analysis.ReachReview:
		if o.Spec.Grouped || o.Spec.GroupBy != "" {
			return "narrow it with from and to, such as a Namespace, and with protocol and port"
		}
		return "name one machine or Namespace in from or to, and a protocol and port"
	case *analysis.EffectiveRules:
		return "ask with of for one machine or Namespace"
	case *analysis.PlanReview:
		return "leave out the map, or plan for fewer objects"
	}
	return "ask for less"
}

// answer fills in a review. It spends from a budget.
func (r *reviews) answer(
	ctx context.Context, s *seen, object runtime.Object, computation *explain.Computation, shared func() *explain.World, sight apiserver.Sight, told analysis.Seen,
) (err error) {
	budget := work.New(r.work, ctx.Err)
	world := func() *explain.World { return shared().Within(budget) }
	switch o := object.(type) {
	case *analysis.FlowReview:
		acls, unread := r.networkACLs(ctx, s, computation.AccountsOf(o.Spec.From, o.Spec.To))
		if sight.All {
			told.Unread = append(slices.Clone(told.Unread), unread...)
		}
		o.Status, err = review.Flow(computation.WithACLs(acls), o.Spec)
		o.Status.Seen = told
	case *analysis.ReachReview:
		o.Status, err = review.Reach(world(), o.Spec)
		o.Status.Seen = told
	case *analysis.PlanReview:
		o.Status, err = r.plan(ctx, s, computation, shared, budget, sight, o.Spec)
		if o.Status.Limited && !told.Limited {
			told.Limited, told.AsOf = true, metav1.NewMicroTime(r.clock.Now().Add(-reviewAge))
		}
		o.Status.Seen = told
	case *analysis.EffectiveRules:
		if o.Status, err = review.Rules(world(), o.Spec); err == nil && o.Spec.Since != nil {
			err = r.traffic.Decided(ctx, o, live.Sight{All: sight.All, Cluster: sight.Cluster, Namespace: sight.Namespace})
		}
		o.Status.Seen = told
	default:
		return fmt.Errorf("a %T is no review", object)
	}
	return err
}

// look returns what is so now, or was so not long ago.
func (r *reviews) look(ctx context.Context) (*seen, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, changes := r.clock.Now(), r.changes()
	observed, unread := r.observed()
	if s := r.last; s != nil && s.fresh(now, changes, observed) {
		return s, nil
	}
	in, err := r.objects(ctx)
	if err != nil {
		return nil, err
	}
	in.Observed = observed
	s := &seen{computed: explain.Compute(in), unread: unread, asOf: now, changes: changes}
	s.everything = sync.OnceValue(func() *explain.World { return s.computed.World(false) })
	r.last = s
	return s, nil
}

// fresh reports whether answers may still be made from what was seen.
func (s *seen) fresh(now time.Time, changes uint64, observed []input.Account) bool {
	age := now.Sub(s.asOf)
	return age < reviewAge || age < reviewMost && s.changes == changes && sameClouds(s.computed.Objects.Observed, observed)
}

// observed is what the inventory knows of the clouds, and of which regions nothing is known now.
func (r *reviews) observed() (all []input.Account, unread []string) {
	if r.clouds == nil {
		return nil, nil
	}
	for _, key := range r.clouds.Keys() {
		a := input.Account{Key: key, VMs: r.clouds.Entities(key), Services: r.clouds.Services(key)}
		for _, region := range r.clouds.Regions(key) {
			snapshot, err := r.clouds.Latest(key, region)
			if err != nil || snapshot == nil {
				unread = append(unread, key+": "+region)
			}
			if snapshot != nil {
				a.Snapshots = append(a.Snapshots, snapshot)
			}
		}
		all = append(all, a)
	}
	return all, unread
}

// networkACLs returns the network ACLs of the accounts that a question is about, which are part of
// no observation, and the accounts in which they could not be read.
func (r *reviews) networkACLs(ctx context.Context, s *seen, accounts []string) (all []cloud.NetworkACL, unread []string) {
	for _, a := range s.computed.Objects.Observed {
		provider, _ := r.Provider(a.Key)
		reader, able := provider.(cloud.ACLReader)
		if !able || !slices.Contains(accounts, a.Key) {
			continue
		}
		for _, snapshot := range a.Snapshots {
			read := r.networkACLsOf(ctx, reader, scope{a.Key, snapshot.Region}, snapshot.Scope)
			all = append(all, read.list...)
			if read.err != nil {
				unread = append(unread, fmt.Sprintf("%s: %s: network ACLs, one of which may stop a packet that is allowed here: %v", a.Key, snapshot.Region, read.err))
			}
		}
	}
	return all, unread
}

// Judging implements flowlogs.Clouds.
func (r *reviews) Judging(ctx context.Context, account string) (*explain.Computation, []cloud.NetworkACL, error) {
	s, err := r.look(ctx)
	if err != nil {
		return nil, nil, err
	}
	acls, _ := r.networkACLs(ctx, s, []string{account})
	return s.computed.WithACLs(acls), acls, nil
}

// Provider implements flowlogs.Clouds.
func (r *reviews) Provider(account string) (cloud.Provider, bool) {
	if r.clouds == nil {
		return nil, false
	}
	return r.clouds.Provider(account)
}

// networkACLsOf reads the network ACLs of a region, at most once in aclAge.
func (r *reviews) networkACLsOf(ctx context.Context, reader cloud.ACLReader, at scope, of cloud.Scope) readACLs {
	r.mu.Lock()
	read, known := r.acls[at]
	r.mu.Unlock()
	if known && r.clock.Since(read.at) < aclAge {
		return read
	}
	read = readACLs{at: r.clock.Now()}
	read.list, read.err = reader.NetworkACLs(ctx, of)
	if ctx.Err() != nil {
		return read // the next caller has not given up
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acls[at] = read
	return read
}

// sameClouds reports whether nothing was read since. A snapshot is never changed once it is there.
func sameClouds(a, b []input.Account) bool {
	return slices.EqualFunc(a, b, func(a, b input.Account) bool {
		return a.Key == b.Key && slices.Equal(a.Snapshots, b.Snapshots)
	})
}

// objects are what there is. Most of them are those that informers hold, and must not be changed.
func (r *reviews) objects(ctx context.Context) (*input.Objects, error) {
	out := &input.Objects{At: r.clock.Now()}
	if r.set != nil {
		out.Remote, out.OwnLabels = r.set.member.Elsewhere()
	}
	for _, k := range r.kinds {
		if k.Kind == "Pod" {
			for _, o := range r.pods.List() {
				if p, ok := o.(*convert.TrimmedPod); ok {
					out.TrimmedPods = append(out.TrimmedPods, p)
				}
			}
			continue
		}
		objects, err := r.listed(ctx, k)
		if err != nil {
			return nil, err
		}
		out.Add(objects...)
	}
	return out, nil
}

// listed returns the objects of a kind; none where its definition is not installed. No informer is
// made for a kind that may be gone again.
func (r *reviews) listed(ctx context.Context, k kinds.Kind) ([]runtime.Object, error) {
	reader, list := r.cached, k.NewList()
	if k.Is(kinds.Optional) {
		reader = r.uncached
	}
	if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reviews: list %T: %w", list, err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, fmt.Errorf("reviews: list %T: %w", list, err)
	}
	return items, nil
}

var _ apiserver.Reviews = (*reviews)(nil)
