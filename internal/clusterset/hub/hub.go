// Package hub is the side of the set that members connect to.
//
// It owns the streams of members, their claims, and the status of Clusters. It promises:
//
//   - A member's certificate says which member it is. Only the latest stream of a member counts.
//   - The workloads of a member count until it reports others or its Cluster is deleted, whether or
//     not it is connected, and also after a restart of the hub.
//   - A member receives only the policies for it, and the addresses of their peers.
//   - A member that sends nonsense, is silent or does not read costs a bounded amount, and delays
//     no other member.
//
// All methods may be called from anywhere. Start may be called once.
package hub

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/claims"
	"github.com/nephele-io/nephele/internal/clusterset/hub/records"
	"github.com/nephele-io/nephele/internal/clusterset/outbox"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/union"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/platform/recovered"
	"github.com/nephele-io/nephele/internal/policy"
)

const (
	// settle is how long changes of objects are gathered.
	settle = 50 * time.Millisecond
	// statusPause is how often the status of a Cluster is written at most, heardPause how old what
	// it says about the last sign of life may become.
	statusPause = time.Second
	heardPause  = time.Minute
	// retryPause is how long to wait before what could not be read is tried again.
	retryPause = 2 * time.Second
	// resumeFor is how long the hub remembers what was sent to a member after its stream has ended.
	resumeFor = 10 * time.Minute
	// mostTold is how many refused claims are listed.
	mostTold = 5
)

// Informers gives out informers; a cache.Cache does.
type Informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// Policies take what is known of policies in other clusters; a control.Controller does.
type Policies interface {
	// RealizedInClusters says how far a policy is realized in the clusters that it is for.
	RealizedInClusters(uid string, in []v1beta1.ClusterRealization)
}

// Statistics add up what members count; a stats.Book does.
type Statistics interface {
	// PutElsewhere says what a member has counted for a policy of the hub, in all since its process
	// began, which epoch names.
	PutElsewhere(cluster, epoch string, counted *wire.Counted)
	// DropElsewhere forgets a member.
	DropElsewhere(cluster string)
}

// Options are what a Hub needs. All are required.
type Options struct {
	// Client reads from a cache, and writes the status of Clusters and what is on record of
	// members; Live reads that from the API server.
	Client    client.Client
	Live      client.Reader
	Informers Informers
	Policies  Policies
	// Statistics are asked for whenever there is something to add.
	Statistics Statistics
	Clock      clock.WithTicker
	Log        logr.Logger
	// Program is the version of the program, Epoch names this process.
	Program, Epoch string
}

// Hub is the hub. See the package comment; use New.
type Hub struct {
	Options
	// news wakes the loop: objects have changed. ready is closed when they have been read.
	news  chan struct{}
	ready chan struct{}
	// commits wakes the goroutine that brings groups up to date.
	commits chan struct{}
	// records keep what is believed of members. They have a lock of their own, which is taken last.
	records *records.Records

	mu       sync.Mutex
	union    *union.Union
	outline  *outline
	clusters map[string]*member
	// broad are the groups that have more members than policies are sent with.
	broad map[string]bool
	// lastStream and lastQuestion are the numbers of the last stream, and of the last question that
	// was put to a member.
	lastStream, lastQuestion uint64
}

// member is what is known of one member besides its claims.
type member struct {
	cluster *setv1alpha1.Cluster
	bounds  *claims.Bounds
	session *session
	hello   *wire.Hello
	since   time.Time
	heard   time.Time
	// wrong is the last that it has said that nobody could understand.
	wrong string
	// realized is what the member reports of policies, by uid.
	realized map[string]wire.Realization
	// stale says that it has been silent for longer than its Cluster has what it told count for
	// rules that allow.
	stale bool
	// asked answers what it has asked for its own policies; hidden says of which clusters it gets
	// nothing there.
	asked  map[string]wire.Told
	hidden map[string]map[string]bool
	// broad says that something of it means too many; interests bounds how fast it asks and lists.
	broad     bool
	interests *rate.Limiter
	// stream is the name of the last stream, out what was told there until it ended, which is
	// forgotten some time after left; taken is the last record that was had of the member.
	stream string
	out    *outbox.Outbox
	left   time.Time
	taken  uint64
}

// New returns a Hub that does nothing until Start.
func New(o Options) *Hub {
	h := &Hub{
		Options: o, news: make(chan struct{}, 1), ready: make(chan struct{}), commits: make(chan struct{}, 1),
		union: union.New(), outline: &outline{}, clusters: map[string]*member{},
	}
	h.records = records.New(records.Options{Client: o.Client, Live: o.Live, Believed: believed{h}, Clock: o.Clock, Log: o.Log})
	return h
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Start runs until ctx ends. It is a manager.Runnable.
func (h *Hub) Start(ctx context.Context) error {
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { wake(h.news) }, UpdateFunc: func(_, _ any) { wake(h.news) }, DeleteFunc: func(any) { wake(h.news) },
	}
	var synced []toolscache.InformerSynced
	for _, o := range []client.Object{&setv1alpha1.Cluster{}, &v1beta1.ClusterNetworkPolicy{}, &v1beta1.NetworkPolicy{}, &networkingv1.NetworkPolicy{}, &v1beta1.Tier{},
		&v1beta1.ClusterGroup{}, &v1beta1.Group{}} {
		informer, err := h.Informers.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if meta.IsNoMatchError(err) { // the definitions are not there: nobody can be a member
			return nil
		}
		if err != nil {
			return fmt.Errorf("hub: watch %T: %w", o, err)
		}
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("hub: watch %T: %w", o, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	for {
		err := h.records.Recall(ctx)
		if err == nil {
			break
		}
		h.Log.Error(err, "Trying again: no member is listened to before")
		select {
		case <-ctx.Done():
			return nil
		case <-h.Clock.After(retryPause):
		}
	}
	var running sync.WaitGroup
	for _, part := range []func(context.Context){h.plan, h.commit, h.tell, h.records.Run} {
		running.Go(func() {
			recovered.Repeat(ctx, h.Clock, func(err error) { h.Log.Error(err, "A panic was recovered", "stack", recovered.StackOf(err)) }, func() { part(ctx) })
		})
	}
	running.Wait()
	return nil
}

// plan brings what members are to have in line with the objects, whenever these have changed.
func (h *Hub) plan(ctx context.Context) {
	for {
		in, err := h.read(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			h.Log.Error(err, "Reading what is for members failed, trying again")
		} else {
			h.take(in)
			select {
			case <-h.ready:
			default:
				close(h.ready)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-h.news:
		}
		select {
		case <-ctx.Done():
			return
		case <-h.Clock.After(settle):
		}
	}
}

// read lists the objects. Lists of policies are of those alone that are for members.
func (h *Hub) read(ctx context.Context) (*inputs, error) {
	var clusters setv1alpha1.ClusterList
	var policies v1beta1.ClusterNetworkPolicyList
	var annps v1beta1.NetworkPolicyList
	var knps networkingv1.NetworkPolicyList
	var tiers v1beta1.TierList
	var cgroups v1beta1.ClusterGroupList
	var groups v1beta1.GroupList
	for _, list := range []client.ObjectList{&clusters, &policies, &annps, &knps, &tiers, &cgroups, &groups} {
		// They are only read.
		if err := h.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
	}
	slices.SortFunc(clusters.Items, func(a, b setv1alpha1.Cluster) int {
		return compareAge(&a, &b)
	})
	return &inputs{
		clusters: clusters.Items, policies: policies.Items, annps: annps.Items, knps: knps.Items, tiers: tiers.Items, cgroups: cgroups.Items, groups: groups.Items,
	}, nil
}

// take takes over the objects.
func (h *Hub) take(in *inputs) {
	h.mu.Lock()
	defer h.mu.Unlock()
	former := map[string]*wire.Policy{}
	for _, policies := range h.outline.policies {
		maps.Copy(former, policies)
	}
	h.members(in.clusters)
	next := draw(in, former)
	for id, g := range next.groups {
		if _, there := h.outline.groups[id]; !there {
			h.union.Want(g)
		}
	}
	for id := range h.outline.groups {
		if _, stays := next.groups[id]; !stays {
			h.union.Unwant(id)
		}
	}
	h.union.Commit()
	gone := h.outline.targets
	h.outline = next
	h.measure()
	for _, m := range h.clusters {
		h.grant(m)
	}
	for i := range next.targets {
		t := &next.targets[i]
		for j := range gone {
			if gone[j].uid == t.uid { // what was once told stays so
				for name, generation := range gone[j].observed {
					t.observed[name] = max(t.observed[name], generation)
				}
			}
		}
		h.realized(t)
	}
	for _, t := range gone {
		if !slices.ContainsFunc(next.targets, func(n target) bool { return n.uid == t.uid }) {
			h.Policies.RealizedInClusters(t.uid, nil)
		}
	}
	for _, m := range h.clusters {
		m.session.wake()
	}
}

// members takes over the Clusters, those first that were made first. The caller holds the lock.
func (h *Hub) members(clusters []setv1alpha1.Cluster) {
	there := map[string]bool{}
	var earlier []*setv1alpha1.Cluster
	for i := range clusters {
		c := clusters[i].DeepCopy()
		if !c.DeletionTimestamp.IsZero() {
			continue
		}
		there[c.Name] = true
		m := h.clusters[c.Name]
		if m == nil || m.cluster.UID != c.UID {
			h.drop(c.Name)
			m = &member{realized: map[string]wire.Realization{}, interests: rate.NewLimiter(interestsPerSecond, interestsAtOnce)}
			h.clusters[c.Name] = m
		}
		if bounds := claims.Of(c, earlier); m.cluster == nil || !equality.Semantic.DeepEqual(m.cluster.Labels, c.Labels) || !bounds.Equal(m.bounds) {
			m.bounds = bounds
			h.union.PutCluster(c.Name, c.Labels, bounds)
			m.session.relabel(c.Labels)
		}
		former := m.cluster
		if m.cluster = c; former == nil {
			for _, on := range h.records.Begin(c.Name, string(c.UID)) {
				h.union.Recall(c.Name, on)
			}
		}
		earlier = append(earlier, c)
	}
	for name := range h.clusters {
		if !there[name] {
			h.drop(name)
		}
	}
	h.records.Known()
}

// drop forgets a member. The caller holds the lock.
func (h *Hub) drop(name string) {
	if m := h.clusters[name]; m != nil {
		m.session.end("the Cluster of this member is gone")
		delete(h.clusters, name)
		h.records.Drop(name)
		h.union.DropCluster(name)
		h.Statistics.DropElsewhere(name)
	}
}

// commit brings groups up to date whenever members have claimed something.
func (h *Hub) commit(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.commits:
		}
		h.commitOnce()
	}
}

func (h *Hub) commitOnce() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commitNow()
}

// commitNow brings groups up to date. The caller holds the lock.
func (h *Hub) commitNow() {
	if len(h.union.Commit()) == 0 {
		return
	}
	h.measure()
	for _, m := range h.clusters {
		m.session.wake()
	}
}

// mostMembers bounds the members of a remote group. A policy with a larger group is not sent to
// clusters that do not have it yet.
const mostMembers = 20_000

// measure finds the groups that are too broad. The caller holds the lock.
func (h *Hub) measure() {
	before := len(h.broad)
	broad := map[string]bool{}
	for id := range h.outline.groups {
		if h.union.Size(id) > mostMembers {
			broad[id] = true
		}
	}
	h.broad = broad
	if len(broad) != before {
		for i := range h.outline.targets {
			h.realized(&h.outline.targets[i])
		}
	}
	for _, m := range h.clusters {
		if m.broad {
			h.grant(m)
		}
	}
}

// sendable are the policies for a member without those that are too broad, unless it has them: what
// is in force does not vanish because it grows. The caller holds the lock.
func (h *Hub) sendable(cluster string, has func(uid string) bool) map[string]*wire.Policy {
	all := h.outline.policies[cluster]
	if len(h.broad) == 0 && !h.outline.hides {
		return all
	}
	out := make(map[string]*wire.Policy, len(all))
	for uid, p := range all {
		if !h.tooBroad(cluster, uid) && h.target(uid).hidden[cluster] == "" || has(uid) || h.observed(uid, cluster) {
			out[uid] = p
		}
	}
	return out
}

// target is what is known of a policy. It is empty for one that there is not.
func (h *Hub) target(uid string) *target {
	for i := range h.outline.targets {
		if t := &h.outline.targets[i]; t.uid == uid {
			return t
		}
	}
	return &target{}
}

// realized tells how far a policy is realized in its clusters. The caller holds the lock.
func (h *Hub) realized(t *target) {
	out := make([]v1beta1.ClusterRealization, 0, len(t.clusters))
	for _, name := range t.clusters {
		out = append(out, h.realizedIn(t, name))
	}
	h.Policies.RealizedInClusters(t.uid, out)
}

// realizedIn is how far a policy is realized in one of its clusters. The caller holds the lock.
func (h *Hub) realizedIn(t *target, name string) v1beta1.ClusterRealization {
	r := v1beta1.ClusterRealization{Name: name, Phase: v1beta1.PhaseUnknown, Reason: setv1alpha1.ReasonNotHeard, ObservedGeneration: t.observed[name]}
	m := h.clusters[name]
	said, told := m.realized[t.uid]
	switch {
	case t.refused != "":
		r.Phase, r.Reason, r.Message = string(v1beta1.NetworkPolicyFailed), setv1alpha1.ReasonRefused, t.refused
	case m.hello == nil && m.cluster.Status.ClusterID == "":
		r.Reason = setv1alpha1.ReasonNotJoined
	case told:
		r.Phase, r.Reason, r.Message = said.Phase, said.Reason, said.Message
		r.ObservedGeneration, r.CurrentNodesRealized, r.DesiredNodesRealized = said.Generation, said.Realized, said.Desired
		if m.session == nil {
			r.Phase, r.Reason = v1beta1.PhaseUnknown, setv1alpha1.ReasonNotHeard
			r.Message = "last heard of at " + m.heard.UTC().Format(time.RFC3339) + ", when it was " + said.Phase
		}
	case t.observed[name] == 0 && h.tooBroad(name, t.uid):
		r.Phase, r.Reason = string(v1beta1.NetworkPolicyFailed), setv1alpha1.ReasonPeerTooBroad
		r.Message = fmt.Sprintf("a peer has more than %d members in other clusters: name fewer, or their networks as ipBlock", mostMembers)
	case t.observed[name] == 0 && t.hidden[name] != "":
		r.Phase, r.Reason, r.Message = string(v1beta1.NetworkPolicyFailed), setv1alpha1.ReasonIdentityHidden, t.hidden[name]
	case m.session != nil:
		r.Reason = setv1alpha1.ReasonSyncing
	}
	if t.missing != "" && r.Reason == "" {
		r.Reason, r.Message = setv1alpha1.ReasonNoCluster, t.missing
	}
	if why := cmp.Or(t.hidden[name], t.blind[name]); why != "" && (r.Reason == "" || r.Reason == setv1alpha1.ReasonSyncing) {
		r.Reason, r.Message = setv1alpha1.ReasonIdentityHidden, why
	}
	return r
}

// withoutStatus is how far policies are realized in a member that have no status to show it in, the
// unrealized first, and how many more there are. The caller holds the lock.
func withoutStatus(h *Hub, cluster string) (out []setv1alpha1.KubernetesPolicy, more int32) {
	for i := range h.outline.targets {
		t := &h.outline.targets[i]
		if t.kind != policy.KubernetesNetworkPolicy || !slices.Contains(t.clusters, cluster) {
			continue
		}
		r := h.realizedIn(t, cluster)
		p := setv1alpha1.KubernetesPolicy{
			Namespace: t.namespace, Name: t.name, Phase: r.Phase, CurrentNodesRealized: r.CurrentNodesRealized, DesiredNodesRealized: r.DesiredNodesRealized,
			Reason: r.Reason, Message: r.Message,
		}
		if r.ObservedGeneration != t.generation && p.Phase != string(v1beta1.NetworkPolicyFailed) {
			p.Phase, p.CurrentNodesRealized = v1beta1.PhaseUnknown, 0
			p.Reason = cmp.Or(p.Reason, setv1alpha1.ReasonSyncing)
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b setv1alpha1.KubernetesPolicy) int {
		return cmp.Or(cmp.Compare(urgency(a), urgency(b)), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	if n := len(out) - maxWithoutStatus; n > 0 {
		out, more = out[:maxWithoutStatus], int32(n)
	}
	return out, more
}

// maxWithoutStatus is how many policies without status the status of a Cluster lists.
const maxWithoutStatus = 200

// urgency orders policies: those that need a person first.
func urgency(p setv1alpha1.KubernetesPolicy) int {
	switch v1beta1.NetworkPolicyPhase(p.Phase) {
	case v1beta1.NetworkPolicyFailed:
		return 0
	case v1beta1.NetworkPolicyRealized, v1beta1.NetworkPolicyIdle:
		return 2
	}
	return 1
}

// observed reports whether a cluster has told of a policy, perhaps to a former process.
func (h *Hub) observed(uid, cluster string) bool {
	return h.target(uid).observed[cluster] > 0
}

func (h *Hub) tooBroad(cluster, uid string) bool {
	p := h.outline.policies[cluster][uid]
	return p != nil && slices.ContainsFunc(p.Groups, func(g string) bool { return h.broad[g] })
}

// reported takes over what a member reports of policies. The caller holds the lock.
func (h *Hub) reported(m *member, all []wire.Realization) {
	for _, r := range all {
		for i := range h.outline.targets {
			if t := &h.outline.targets[i]; t.uid == r.UID && slices.Contains(t.clusters, m.cluster.Name) {
				m.realized[r.UID] = bounded(r)
				if r.Reason == "" {
					t.observed[m.cluster.Name] = max(t.observed[m.cluster.Name], r.Generation)
				}
				h.realized(t)
			}
		}
	}
}

// counted takes over what a member has counted for policies that are for it, as far as these have
// such rules. The caller holds the lock.
func (h *Hub) counted(m *member, all []wire.Counted) {
	for i := range all {
		c := &all[i]
		t := h.target(c.UID)
		if !slices.Contains(t.clusters, m.cluster.Name) {
			continue
		}
		if err := c.Check(); err != nil {
			m.wrong = wire.OneLine("what it has counted: "+err.Error(), 256)
			continue
		}
		c.Rules = slices.DeleteFunc(c.Rules, func(r wire.RuleCount) bool { return !slices.Contains(t.rules, r.Name) })
		h.Statistics.PutElsewhere(m.cluster.Name, m.hello.Epoch, c)
	}
}

// bounded is what a member reports of a policy, as far as it may be stored.
func bounded(r wire.Realization) wire.Realization {
	switch v1beta1.NetworkPolicyPhase(r.Phase) {
	case v1beta1.NetworkPolicyPending, v1beta1.NetworkPolicyRealizing, v1beta1.NetworkPolicyRealized, v1beta1.NetworkPolicyIdle, v1beta1.NetworkPolicyPlanned,
		v1beta1.NetworkPolicyFailed:
	default:
		r.Phase = v1beta1.PhaseUnknown
	}
	r.Message, r.Reason = wire.OneLine(r.Message, 256), wire.OneLine(r.Reason, 64)
	r.Realized, r.Desired = max(r.Realized, 0), max(r.Desired, 0)
	return r
}

// around tells of all policies of a member anew. The caller holds the lock.
func (h *Hub) around(name string) {
	for i := range h.outline.targets {
		if t := &h.outline.targets[i]; slices.Contains(t.clusters, name) {
			h.realized(t)
		}
	}
}

// view is what a member receives, as of now. Workloads of a cluster that has been silent for too
// long do not count in groups of rules that allow.
type view struct {
	*union.Union
	stale  map[string]bool
	hidden map[string]map[string]bool
}

// Expired implements outbox.View.
func (v *view) Expired(group, cluster string) bool {
	return v.stale[cluster] && peers.Allows(group) || v.hidden[group][cluster]
}

// view makes the view of now for a member. The caller holds the lock.
func (h *Hub) view(to *member) *view {
	v := &view{Union: h.union, hidden: to.hidden}
	for name, m := range h.clusters {
		if m.stale {
			if v.stale == nil {
				v.stale = map[string]bool{}
			}
			v.stale[name] = true
		}
	}
	return v
}

// lastHeard is when a member was heard last, perhaps by a former process; zero if never. The caller
// holds the lock.
func (m *member) lastHeard() time.Time {
	if m.heard.IsZero() && m.cluster.Status.LastHeard != nil {
		return m.cluster.Status.LastHeard.Time
	}
	return m.heard
}

// expire finds the members that have been silent for too long.
func (h *Hub) expire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, changed := h.Clock.Now(), false
	for name, m := range h.clusters {
		after, heard := m.cluster.Spec.StaleAfter, m.lastHeard()
		stale := after != nil && !heard.IsZero() && m.session == nil && now.Sub(heard) >= after.Duration
		if m.session == nil && m.out != nil && now.Sub(m.left) >= resumeFor {
			m.out = nil
		}
		if m.session != nil && m.stale { // it begins to count again when it has told all
			stale = !h.union.Counts(name).Heard || !m.session.listed
		}
		changed = changed || stale != m.stale
		m.stale = stale
	}
	if !changed {
		return
	}
	for _, m := range h.clusters {
		m.session.wake()
	}
}

// Silent is for how long each member was not heard of that has joined.
func (h *Hub) Silent() map[string]time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]time.Duration{}
	for name, m := range h.clusters {
		switch heard := m.lastHeard(); {
		case heard.IsZero():
		case m.session != nil:
			out[name] = 0
		default:
			out[name] = max(0, h.Clock.Since(heard))
		}
	}
	return out
}

// tell keeps the status of Clusters current.
func (h *Hub) tell(ctx context.Context) {
	ticker := h.Clock.NewTicker(statusPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		h.expire()
		for _, c := range h.statuses() {
			if err := h.Client.Status().Update(ctx, c); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
				h.Log.V(1).Info("The status of a Cluster was not written, trying again", "cluster", c.Name, "reason", err.Error())
			}
		}
	}
}

// statuses are the Clusters whose status is to say something else.
func (h *Hub) statuses() []*setv1alpha1.Cluster {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []*setv1alpha1.Cluster
	for _, name := range slices.Sorted(maps.Keys(h.clusters)) {
		m := h.clusters[name]
		c := m.cluster.DeepCopy()
		h.describe(m, &c.Status, c.Generation)
		m.session.refuse(meta.FindStatusCondition(c.Status.Conditions, setv1alpha1.ClusterClaimsRefused))
		before := m.cluster.Status
		if equality.Semantic.DeepEqual(before, c.Status) {
			continue
		}
		// That something was heard is no news by itself.
		quiet := c.Status.DeepCopy()
		quiet.LastHeard = before.LastHeard
		if equality.Semantic.DeepEqual(&before, quiet) && before.LastHeard != nil && m.heard.Sub(before.LastHeard.Time) < heardPause {
			continue
		}
		out = append(out, c)
	}
	return out
}

// taken are the regions of cloud accounts that a member works on and another does as well whose
// they are: that of the Cluster whose spec.accounts name them, if only one does, or else that which
// was there before. The caller holds the lock.
func (h *Hub) taken(m *member) map[string]string {
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(h.clusters)) {
		o := h.clusters[name]
		if o == m {
			continue
		}
		for _, region := range h.union.Shared(m.cluster.Name, name) {
			before := cmp.Or(compareNamed(o.cluster, m.cluster), compareAge(o.cluster, m.cluster)) < 0
			if former := h.clusters[out[region]]; before && (former == nil || cmp.Or(compareNamed(o.cluster, former.cluster), compareAge(o.cluster, former.cluster)) < 0) {
				out[region] = name
			}
		}
	}
	return out
}

// unheard are the clusters that were not heard of since this process began. The caller holds the
// lock.
func (h *Hub) unheard() []string {
	var out []string
	names, heard := h.union.Members()
	for _, name := range names {
		if !heard[name] {
			out = append(out, name)
		}
	}
	return out
}

// compareNamed puts a Cluster first that says which accounts are its.
func compareNamed(a, b *setv1alpha1.Cluster) int {
	switch {
	case (a.Spec.Accounts == nil) == (b.Spec.Accounts == nil):
		return 0
	case a.Spec.Accounts != nil:
		return -1
	}
	return 1
}

func compareAge(a, b *setv1alpha1.Cluster) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

// contradiction describes how what a member declares by the About API differs from the set, and
// whether it declares anything. The caller holds the lock.
func contradiction(h *Hub, m *member) (why string, declared bool) {
	if m.hello == nil {
		return "", false
	}
	d := &m.hello.Declared
	if d.Name != "" && d.Name != m.cluster.Name {
		return "its ClusterProperty cluster.clusterset.k8s.io says " + wire.OneLine(d.Name, 80), true
	}
	var first *member
	for _, o := range h.clusters {
		if o.hello != nil && o.hello.Declared.Set != "" && (first == nil || compareAge(o.cluster, first.cluster) < 0) {
			first = o
		}
	}
	if d.Set != "" && first.hello.Declared.Set != d.Set {
		return "its ClusterProperty clusterset.k8s.io says " + wire.OneLine(d.Set, 80) + ", and that of " + first.cluster.Name + " says " + wire.OneLine(first.hello.Declared.Set, 80), true
	}
	return "", d.Name+d.Set != ""
}

// describe fills in the status of a Cluster. The caller holds the lock.
func (h *Hub) describe(m *member, s *setv1alpha1.ClusterStatus, generation int64) {
	counts := h.union.Counts(m.cluster.Name)
	set := func(kind string, is metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: kind, Status: is, Reason: reason, Message: message, ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(h.Clock.Now()),
		})
	}
	s.KubernetesPolicies, s.KubernetesPoliciesMore = withoutStatus(h, m.cluster.Name)
	s.Policies, s.Selectors = int32(len(h.outline.policies[m.cluster.Name])), int32(len(m.asked))
	if m.hello != nil {
		s.Version, s.Protocol, s.ClusterID = m.hello.Program, int32(min(m.hello.Version, wire.Version)), m.hello.ClusterID
		s.Namespaces, s.Entities, s.Refused = int32(counts.Namespaces), int32(counts.Entities), int32(counts.Refused)
		since, heard := metav1.NewTime(m.since.Truncate(time.Second)), metav1.NewTime(m.heard.Truncate(time.Second))
		s.Since, s.LastHeard = &since, &heard
	}
	switch {
	case m.session != nil && m.session.synced && counts.Heard:
		set(setv1alpha1.ClusterConnected, metav1.ConditionTrue, setv1alpha1.ReasonOK, "")
		set(setv1alpha1.ClusterInSync, metav1.ConditionTrue, setv1alpha1.ReasonOK, "")
	case m.session != nil:
		set(setv1alpha1.ClusterConnected, metav1.ConditionTrue, setv1alpha1.ReasonOK, "")
		set(setv1alpha1.ClusterInSync, metav1.ConditionFalse, setv1alpha1.ReasonSyncing, "what there is is being told")
	case m.hello == nil && s.ClusterID == "":
		set(setv1alpha1.ClusterConnected, metav1.ConditionFalse, setv1alpha1.ReasonNotJoined, "no cluster has joined by its token")
		set(setv1alpha1.ClusterInSync, metav1.ConditionFalse, setv1alpha1.ReasonNotJoined, "")
	case m.stale:
		set(setv1alpha1.ClusterConnected, metav1.ConditionFalse, setv1alpha1.ReasonExpired, "what it has been told stays in force there; rules that allow do not mean what it has any more")
		set(setv1alpha1.ClusterInSync, metav1.ConditionFalse, setv1alpha1.ReasonNotHeard, "")
	default:
		set(setv1alpha1.ClusterConnected, metav1.ConditionFalse, setv1alpha1.ReasonNotHeard, "what it has been told stays in force there, and what it has told stays known here")
		set(setv1alpha1.ClusterInSync, metav1.ConditionFalse, setv1alpha1.ReasonNotHeard, "")
	}
	switch why, declared := contradiction(h, m); {
	case m.hello == nil: // it may declare the same again
	case !declared:
		meta.RemoveStatusCondition(&s.Conditions, setv1alpha1.ClusterNamed)
	case why != "":
		set(setv1alpha1.ClusterNamed, metav1.ConditionFalse, setv1alpha1.ReasonContradicted, why)
	default:
		set(setv1alpha1.ClusterNamed, metav1.ConditionTrue, setv1alpha1.ReasonOK, "")
	}
	refused := h.union.Refused(m.cluster.Name, mostTold)
	overlaps := m.bounds.Overlaps()
	taken := h.taken(m)
	m.session.yield(&wire.Taken{By: taken, Unheard: h.unheard()})
	switch {
	case len(taken) > 0:
		first := slices.Sorted(maps.Keys(taken))[0]
		message := first + " is worked on by " + taken[first] + ", whose it is: this member is told to change nothing there"
		if len(taken) > 1 {
			message += fmt.Sprintf("; and %d more", len(taken)-1)
		}
		set(setv1alpha1.ClusterClaimsRefused, metav1.ConditionTrue, setv1alpha1.ReasonAccountTaken, message)
	case len(overlaps) > 0:
		set(setv1alpha1.ClusterClaimsRefused, metav1.ConditionTrue, setv1alpha1.ReasonOverlap, "its addresses are also addresses of "+strings.Join(overlaps, ", ")+
			", which had them first: what it has there is not believed")
	case len(refused) > 0:
		message := strings.Join(refused, "; ")
		if counts.Refused > len(refused) {
			message += fmt.Sprintf("; and %d more", counts.Refused-len(refused))
		}
		set(setv1alpha1.ClusterClaimsRefused, metav1.ConditionTrue, setv1alpha1.ReasonBounds, message)
	case m.wrong != "":
		set(setv1alpha1.ClusterClaimsRefused, metav1.ConditionTrue, setv1alpha1.ReasonBounds, m.wrong)
	default:
		set(setv1alpha1.ClusterClaimsRefused, metav1.ConditionFalse, setv1alpha1.ReasonOK, "")
	}
}
