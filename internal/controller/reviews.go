package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	upstreamv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	upstreamv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	antreav1alpha1 "github.com/nephele-io/nephele/api/antrea/v1alpha1"
	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/inventory"
	"github.com/nephele-io/nephele/internal/control/convert"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/manifest"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/review"
)

// reviewAge is how old what a review is answered from may be while objects go on changing. Working
// it out takes a second of processor time for 10,000 VMs.
const reviewAge = 2 * time.Second

// aclAge is how old network ACLs may be. No event tells of their changes, and reading them is a
// call to the cloud.
const aclAge = time.Minute

// reviews answers reviews from the caches of the process and what the inventory knows of clouds. Of
// a cloud only network ACLs are read, and no review changes anything.
type reviews struct {
	cached client.Reader
	// live reads what no informer follows, or follows only where it is installed.
	live client.Reader
	pods toolscache.Store
	// clouds is nil where another process has the accounts.
	clouds *inventory.Inventory
	// cluster is the id under which we own objects in clouds.
	cluster string
	ready   func() error
	clock   clock.PassiveClock
	// changes counts what has happened to objects.
	changes *atomic.Uint64

	// parser reads what PlanReviews bring.
	parser manifest.Parser

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
	*explain.Computation
	clouds explain.Clouds
	unread []string
	asOf   time.Time
	// changes tells whether it is still so.
	changes uint64
	// everything is the world of those who may see everything.
	everything func() *explain.World
}

// wrongQuestion is an error that is the caller's.
type wrongQuestion struct{ error }

// WrongQuestion implements apiserver.WrongQuestion.
func (wrongQuestion) WrongQuestion() {}

// reviewedKinds are the kinds that reviews look at and that informers follow anyway.
func (o *Options) reviewedKinds() []client.Object {
	kinds := []client.Object{
		&corev1.Namespace{}, &corev1.Node{}, &corev1.Service{}, &antreav1alpha2.ExternalEntity{}, &antreav1alpha1.ExternalNode{},
		&antreav1beta1.Tier{}, &antreav1beta1.Group{}, &antreav1beta1.ClusterGroup{}, &antreav1beta1.NetworkPolicy{}, &antreav1beta1.ClusterNetworkPolicy{},
		&networkingv1.NetworkPolicy{},
	}
	if !o.NoClouds {
		kinds = append(kinds, &cloudv1.CloudProviderAccount{}, &cloudv1.CloudEntitySelector{}, &cloudv1.VirtualMachine{},
			&cloudv1.CloudNativeService{}, &cloudv1.NetworkInterface{})
	}
	return kinds
}

// newReviews follows what reviews are answered from. Ready fails before policies are computed.
func newReviews(ctx context.Context, mgr manager.Manager, cluster string, ready func() error, clk clock.PassiveClock, o Options) (*reviews, error) {
	r := &reviews{
		cached: mgr.GetCache(), live: mgr.GetAPIReader(), clouds: o.clouds, cluster: cluster, ready: ready, clock: clk, changes: &atomic.Uint64{}, acls: map[scope]readACLs{},
	}
	pods, err := mgr.GetCache().GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("reviews: watch Pods: %w", err)
	}
	holder, ok := pods.(toolscache.SharedInformer)
	if !ok {
		return nil, fmt.Errorf("reviews: the informer of Pods is a %T, which shows nobody what it holds", pods)
	}
	r.pods = holder.GetStore()
	informers := []cache.Informer{pods}
	for _, kind := range o.reviewedKinds() {
		informer, err := mgr.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("reviews: watch %T: %w", kind, err)
		}
		informers = append(informers, informer)
	}
	changed := func(any) { r.changes.Add(1) }
	for _, i := range informers {
		if _, err := i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: changed, UpdateFunc: func(_, after any) { changed(after) }, DeleteFunc: changed,
		}); err != nil {
			return nil, fmt.Errorf("reviews: %w", err)
		}
	}
	return r, nil
}

// Review implements apiserver.Reviews.
func (r *reviews) Review(ctx context.Context, object runtime.Object, sight apiserver.Sight) error {
	if err := r.ready(); err != nil {
		return err
	}
	s, err := r.look(ctx)
	if err != nil {
		return err
	}
	told := analysis.Seen{AsOf: metav1.NewMicroTime(s.asOf), Limited: !sight.All, Unread: s.unread}
	computation, world := s.Computation, s.everything
	if !sight.All {
		computation = s.For(explain.View{Namespace: sight.Namespace, Cluster: sight.Cluster})
		world = func() *explain.World { return computation.World(s.clouds, false) }
		told.Unread = nil
	}
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
		o.Status, err = r.plan(ctx, s, computation, world, sight, o.Spec)
		told.Limited = told.Limited || o.Status.Limited
		o.Status.Seen = told
	case *analysis.EffectiveRules:
		o.Status, err = review.Rules(world(), o.Spec)
		o.Status.Seen = told
	default:
		return fmt.Errorf("a %T is no review", object)
	}
	if wrong := (*review.WrongError)(nil); errors.As(err, &wrong) {
		return wrongQuestion{wrong}
	}
	return err
}

// look returns what is so now, or was so not long ago.
func (r *reviews) look(ctx context.Context) (*seen, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, changes := r.clock.Now(), r.changes.Load()
	observed, unread := r.observed()
	if s := r.last; s != nil && (now.Sub(s.asOf) < reviewAge || s.changes == changes && sameClouds(s.Observed, observed)) {
		return s, nil
	}
	in, err := r.objects(ctx)
	if err != nil {
		return nil, err
	}
	in.Observed = observed
	s := &seen{Computation: explain.Compute(in), clouds: cloudsOf(observed), unread: unread, asOf: now, changes: changes}
	s.everything = sync.OnceValue(func() *explain.World { return s.World(s.clouds, false) })
	r.last = s
	return s, nil
}

// observed is what the inventory knows of the clouds, and of which regions nothing is known now.
func (r *reviews) observed() (all []explain.ObservedAccount, unread []string) {
	if r.clouds == nil {
		return nil, nil
	}
	for _, key := range r.clouds.Keys() {
		a := explain.ObservedAccount{Key: key, VMs: r.clouds.Entities(key)}
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

// networkACLs returns those of the accounts that a question is about, which are part of no
// observation, and whose could not be read.
func (r *reviews) networkACLs(ctx context.Context, s *seen, accounts []string) (all []cloud.NetworkACL, unread []string) {
	for _, a := range s.Observed {
		provider, _ := r.provider(a.Key)
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

func (r *reviews) provider(account string) (cloud.Provider, bool) {
	if r.clouds == nil {
		return nil, false
	}
	return r.clouds.Provider(account)
}

// networkACLsOf reads those of a region, at most once in aclAge.
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
		return read // whoever asks next has not given up
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acls[at] = read
	return read
}

// sameClouds reports whether nothing was read since. A snapshot is never changed once it is there.
func sameClouds(a, b []explain.ObservedAccount) bool {
	return slices.EqualFunc(a, b, func(a, b explain.ObservedAccount) bool {
		return a.Key == b.Key && slices.Equal(a.Snapshots, b.Snapshots)
	})
}

func cloudsOf(accounts []explain.ObservedAccount) explain.Clouds {
	out := explain.Clouds{VMs: map[types.NamespacedName]explain.CloudVM{}}
	for _, a := range accounts {
		out.Snapshots = append(out.Snapshots, a.Snapshots...)
		for name, ref := range a.VMs {
			out.VMs[name] = explain.CloudVM{ID: ref.VMID, Suspended: preview.Suspension(ref)}
		}
	}
	return out
}

// objects are what there is. Most of them are those that informers hold, and must not be changed.
func (r *reviews) objects(ctx context.Context) (*explain.Objects, error) {
	l, live := &lister{ctx: ctx, Reader: r.cached}, &lister{ctx: ctx, Reader: r.live}
	out := &explain.Objects{
		At:         r.clock.Now(),
		Namespaces: listed[corev1.Namespace](l, &corev1.NamespaceList{}), Nodes: listed[corev1.Node](l, &corev1.NodeList{}),
		Services: listed[corev1.Service](l, &corev1.ServiceList{}), Entities: listed[antreav1alpha2.ExternalEntity](l, &antreav1alpha2.ExternalEntityList{}),
		ExternalNodes: listed[antreav1alpha1.ExternalNode](l, &antreav1alpha1.ExternalNodeList{}),
		AgentInfos:    listed[antreav1beta1.AntreaAgentInfo](live, &antreav1beta1.AntreaAgentInfoList{}),
		Tiers:         listed[antreav1beta1.Tier](l, &antreav1beta1.TierList{}), Groups: listed[antreav1beta1.Group](l, &antreav1beta1.GroupList{}),
		ClusterGroups:    listed[antreav1beta1.ClusterGroup](l, &antreav1beta1.ClusterGroupList{}),
		Policies:         listed[antreav1beta1.NetworkPolicy](l, &antreav1beta1.NetworkPolicyList{}),
		ClusterPolicies:  listed[antreav1beta1.ClusterNetworkPolicy](l, &antreav1beta1.ClusterNetworkPolicyList{}),
		K8sPolicies:      listed[networkingv1.NetworkPolicy](l, &networkingv1.NetworkPolicyList{}),
		AdminPolicies:    listed[upstreamv1alpha1.AdminNetworkPolicy](live, &upstreamv1alpha1.AdminNetworkPolicyList{}),
		BaselinePolicies: listed[upstreamv1alpha1.BaselineAdminNetworkPolicy](live, &upstreamv1alpha1.BaselineAdminNetworkPolicyList{}),
		UpstreamPolicies: listed[upstreamv1alpha2.ClusterNetworkPolicy](live, &upstreamv1alpha2.ClusterNetworkPolicyList{}),
	}
	if r.clouds != nil {
		out.Accounts = listed[cloudv1.CloudProviderAccount](l, &cloudv1.CloudProviderAccountList{})
		out.Selectors = listed[cloudv1.CloudEntitySelector](l, &cloudv1.CloudEntitySelectorList{})
		out.VMs = listed[cloudv1.VirtualMachine](l, &cloudv1.VirtualMachineList{})
		out.NativeServices = listed[cloudv1.CloudNativeService](l, &cloudv1.CloudNativeServiceList{})
		out.Interfaces = listed[cloudv1.NetworkInterface](l, &cloudv1.NetworkInterfaceList{})
	}
	for _, o := range r.pods.List() {
		if p, ok := o.(*convert.TrimmedPod); ok {
			out.TrimmedPods = append(out.TrimmedPods, p)
		}
	}
	return out, errors.Join(l.err, live.err)
}

// lister lists kinds until one fails.
type lister struct {
	ctx context.Context
	client.Reader
	err error
}

// listed returns the objects of a kind; none where its definition is not installed.
func listed[T any, P interface {
	*T
	client.Object
}](l *lister, list client.ObjectList) []*T {
	if l.err != nil {
		return nil
	}
	if err := l.List(l.ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		if !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			l.err = fmt.Errorf("reviews: list %T: %w", list, err)
		}
		return nil
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		l.err = fmt.Errorf("reviews: list %T: %w", list, err)
		return nil
	}
	out := make([]*T, 0, len(items))
	for _, i := range items {
		if o, ok := i.(P); ok {
			out = append(out, (*T)(o))
		}
	}
	return out
}

var _ apiserver.Reviews = (*reviews)(nil)
