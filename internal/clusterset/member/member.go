// Package member is the side of the set that connects to a hub.
//
// It owns the connection, and what the hub has sent: copies of its policies as objects of this
// cluster, and remote groups. It promises:
//
//   - Only this side connects. The hub proves itself by the authority that the token named.
//   - What the hub has sent stays while the hub is away, also over a restart. A remote group is
//     stored before the policy that names it is written.
//   - The hub can do in this cluster only what the Membership accepts. A policy with an unknown
//     part is not accepted, and never changed to the parts that are known.
//   - Without a Membership nothing is read, sent or written.
//   - Where an Antrea Controller computes the policies, they are translated for it (package plain).
//
// All methods may be called from anywhere. Start may be called once.
package member

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/feed"
	"github.com/nephele-io/nephele/internal/clusterset/member/certificate"
	"github.com/nephele-io/nephele/internal/clusterset/member/copies"
	"github.com/nephele-io/nephele/internal/clusterset/member/external"
	"github.com/nephele-io/nephele/internal/clusterset/member/own"
	"github.com/nephele-io/nephele/internal/clusterset/member/questions"
	"github.com/nephele-io/nephele/internal/clusterset/member/records"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/plain"
	"github.com/nephele-io/nephele/internal/clusterset/remote"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/platform/recovered"
	"github.com/nephele-io/nephele/internal/policy"
)

const (
	// firstPause and mostPause are the waits between connections that fail, as far as chance does
	// not lengthen them. With a hub of several addresses, of which another one leads soon, they do
	// not grow beyond severalPause.
	firstPause, mostPause, severalPause = time.Second, 30 * time.Second, 2 * time.Second
	// retryPause is how long to wait before what could not be written is tried again.
	retryPause = 2 * time.Second
	// statusPause is how often the status of the Membership is looked at.
	statusPause = time.Second
	heardPause  = time.Minute
)

// Informers gives out informers; a cache.Cache does.
type Informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// Policies compute with what other clusters have; a control.Controller does.
type Policies interface {
	// PutRemote changes what is known of workloads of other clusters.
	PutRemote(put []policy.Entity, gone []policy.EntityRef)
	// PutOwnLabels says which labels the Namespaces and Nodes of this cluster have besides their
	// own.
	PutOwnLabels(labels map[string]string)
	// PutPeerNotes says what is to be known of the remote groups that this cluster's own policies
	// name, by id; empty if all is well.
	PutPeerNotes(notes map[string]string)
	// FollowCopies sets the function that takes how far copies of the hub's policies are realized
	// that have no status of their own.
	FollowCopies(follow func(o client.Object, s v1beta1.NetworkPolicyStatus))
}

// Options are what a Member needs. All are required but Policies.
type Options struct {
	// Client reads from a cache, but Secrets from the API server, and writes; Live reads from the
	// API server.
	Client    client.Client
	Live      client.Reader
	Informers Informers
	// Policies compute the policies of this cluster; nil says that an Antrea Controller does.
	Policies Policies
	// Counted is what was counted for a policy of this cluster; false if nothing is.
	Counted func(o client.Object) (wire.Counted, bool)
	// Answers answers the hub's questions.
	Answers questions.Answers
	Clock   clock.WithTicker
	Random  func() float64
	Log     logr.Logger
	// Namespace is that of the Secret with the credentials.
	Namespace string
	// Program is the version of the program, Epoch names this process, ClusterID the cluster.
	Program, Epoch, ClusterID string
}

// Member is the member. See the package comment; use New.
type Member struct {
	Options
	// known is closed when what was on record has been given to Policies.
	known chan struct{}
	// news wakes the goroutine that connects, told the one that reports, work the one that writes
	// objects.
	news, told, work chan struct{}
	// certificate is what this cluster proves itself with, questions answers what the hub asks.
	// These and records have locks of their own, which are taken last.
	certificate *certificate.Keeper
	questions   *questions.Desk
	// records keep what is in the book.
	records *records.Records

	mu   sync.Mutex
	feed *feed.Feed
	book *remote.Book
	// entities are the ExternalEntities for the members of remote groups, where an Antrea
	// Controller computes the policies; else nil.
	entities *external.Writer
	// fed are the kinds that are listened to.
	fed bool
	// ledger is what has become of the hub's policies.
	ledger *copies.Ledger
	// sent notes which parts of groups the present stream has brought, or the one that it goes on.
	sent map[string]map[string]bool
	// own are the groups that this cluster's own policies name.
	own      *own.Peers
	state    state
	services *services
}

// state is what the status of the Membership says.
type state struct {
	membership *setv1alpha1.Membership
	// labels are those that the Cluster named cluster has in the hub.
	labels  map[string]string
	cluster string
	version int // that is spoken
	// stream is the name of the last stream, received the last record that was had there.
	stream    string
	received  uint64
	heard     time.Time
	connected bool
	// refused is what the hub does not believe, taken the regions of accounts that are others'; nil
	// before it has said so.
	refused string
	taken   map[string]string
	// declared is what this cluster declares of itself, as of declaredAt.
	declared   wire.Declared
	declaredAt time.Time
	// why says what is wrong, reason the same in one word.
	why, reason string
}

// New returns a Member that does nothing until Start.
func New(o Options) *Member {
	m := &Member{
		Options: o, known: make(chan struct{}), news: make(chan struct{}, 1), told: make(chan struct{}, 1), work: make(chan struct{}, 1),
		feed: feed.New(), book: remote.New(peers.Allows),
		ledger: copies.New(o.Policies == nil),
	}
	m.records = records.New(records.Options{Client: o.Client, Live: o.Live, Clock: o.Clock})
	m.certificate = certificate.New(certificate.Options{Client: o.Client, Namespace: o.Namespace, Clock: o.Clock, Log: o.Log})
	m.questions = questions.New(questions.Options{Answers: o.Answers, Allowed: m.mayAnswer, Told: func() { wake(m.told) }, Log: o.Log})
	m.own = own.New(m.feed, m.book)
	m.services = newServices(m.feed, m.book)
	if o.Policies == nil {
		m.Policies = elsewhere{}
		m.entities = external.New(external.Options{Client: o.Client, Live: o.Live})
	}
	return m
}

// Known is closed when what was on record has been given to Policies.
func (m *Member) Known() <-chan struct{} { return m.known }

// Elsewhere returns the workloads of other clusters in peers, and the labels that Namespaces and
// Nodes of this cluster have in the set.
func (m *Member) Elsewhere() (remote []policy.Entity, own map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state.labels != nil {
		own = peers.Given(m.state.cluster, m.state.labels)
	}
	return m.book.Entities(), own
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Start runs until ctx ends. It is a manager.Runnable.
func (m *Member) Start(ctx context.Context) error {
	if !m.remember(ctx) {
		return nil
	}
	close(m.known)
	informer, err := m.Informers.GetInformer(ctx, &setv1alpha1.Membership{}, cache.BlockUntilSynced(false))
	if meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("member: watch Memberships: %w", err)
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { m.changed() }, UpdateFunc: func(_, _ any) { m.changed() }, DeleteFunc: func(any) { m.changed() },
	}); err != nil {
		return fmt.Errorf("member: watch Memberships: %w", err)
	}
	m.Policies.FollowCopies(func(o client.Object, s v1beta1.NetworkPolicyStatus) { copyStatus(m, o, s) })
	var running sync.WaitGroup
	for _, part := range []func(context.Context){m.connect, m.write, m.tell} {
		running.Go(func() {
			recovered.Repeat(ctx, m.Clock, func(err error) { m.Log.Error(err, "A panic was recovered", "stack", recovered.StackOf(err)) }, func() { part(ctx) })
		})
	}
	running.Wait()
	return nil
}

// changed takes over that there is news of the Membership.
func (m *Member) changed() {
	wake(m.news)
	wake(m.work)
}

// remember gives Policies what is on record. It tries until it can be read, because without it
// peers would look empty; false means that ctx has ended.
func (m *Member) remember(ctx context.Context) bool {
	for {
		err := m.load(ctx)
		switch {
		case err == nil, meta.IsNoMatchError(err):
			return true
		case apierrors.IsForbidden(err): // then nothing was ever written
			m.Log.Info("This cluster can be no member of a set: apply config/controller again", "reason", err.Error())
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		m.Log.Error(err, "What is on record of other clusters cannot be read, trying again: no policy is computed before")
		select {
		case <-ctx.Done():
			return false
		case <-m.Clock.After(retryPause):
		}
	}
}

func (m *Member) load(ctx context.Context) error {
	var groups setv1alpha1.RemoteGroupList
	var memberships setv1alpha1.MembershipList
	for _, list := range []client.ObjectList{&groups, &memberships} {
		if err := m.Live.List(ctx, list); err != nil {
			return err
		}
	}
	var entities v1alpha2.ExternalEntityList
	if m.entities != nil {
		if err := m.Live.List(ctx, &entities, client.InNamespace(plain.Namespace), client.MatchingLabels{setv1alpha1.LabelFromHub: "true"}); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entities != nil {
		m.entities.Load(entities.Items)
	}
	var known []string
	for i := range groups.Items {
		g := &groups.Items[i]
		if err := m.book.LoadText(g.Name, g.Content); err != nil { // a group that nobody can read is as one that is not there
			m.Log.Error(err, "A record of a remote group is left out", "group", g.Name)
			continue
		}
		known = append(known, g.Name)
	}
	for i := range memberships.Items {
		if s := &memberships.Items[i]; s.Status.Labels != nil {
			m.state.labels, m.state.cluster = s.Status.Labels, s.Spec.Cluster
			if s.Status.LastHeard != nil {
				m.state.heard = s.Status.LastHeard.Time
			}
			m.state.taken = map[string]string{}
			for _, t := range s.Status.TakenAccounts {
				m.state.taken[t.Region] = t.By
			}
			m.expire(s)
			m.Policies.PutOwnLabels(peers.Given(s.Spec.Cluster, s.Status.Labels))
		}
	}
	m.give()
	m.records.Loaded(known)
	return nil
}

// give passes on what has changed in remote groups. The caller holds the lock.
func (m *Member) give() {
	change, groups := m.book.Take()
	if len(change.Put)+len(change.Gone) > 0 {
		m.Policies.PutRemote(change.Put, change.Gone)
		if m.entities != nil {
			m.entities.Put(&change)
			wake(m.work)
		}
	}
	m.records.Changed(groups)
	if len(groups) > 0 {
		wake(m.work)
	}
}

// membership returns the Membership; nil if there is none.
func (m *Member) membership(ctx context.Context) (*setv1alpha1.Membership, error) {
	var found setv1alpha1.Membership
	err := m.Client.Get(ctx, client.ObjectKey{Name: setv1alpha1.MembershipName}, &found)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if err != nil || !found.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	return &found, nil
}

// connect keeps a stream to the hub while there is a Membership.
func (m *Member) connect(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		membership, err := m.membership(ctx)
		if err != nil || membership == nil {
			m.mu.Lock()
			m.state.membership, m.state.connected = nil, false
			m.annotate()
			m.mu.Unlock()
			m.wait(ctx, m.news, retryPause, err != nil)
			continue
		}
		if err := m.listen(ctx); err != nil {
			m.Log.Error(err, "What there is to tell the hub cannot be read, trying again")
			m.wait(ctx, nil, retryPause, true)
			continue
		}
		m.mu.Lock()
		joined := m.state.membership == nil
		if m.state.membership = membership; joined {
			m.annotate() // which may have said that this cluster is in no set
		}
		m.mu.Unlock()
		lasted, err := m.round(ctx, membership)
		if ctx.Err() != nil {
			return
		}
		m.failed(err)
		if lasted {
			pause = firstPause
		}
		m.wait(ctx, m.news, pause+time.Duration(m.Random()*float64(pause)), true)
		if pause = min(2*pause, mostPause); len(membership.Spec.Hub) > 1 {
			pause = min(pause, severalPause)
		}
	}
}

// wait waits for news, or also for a time.
func (m *Member) wait(ctx context.Context, news <-chan struct{}, d time.Duration, timed bool) {
	var after <-chan time.Time
	if timed {
		timer := m.Clock.NewTimer(d)
		defer timer.Stop()
		after = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-news:
	case <-after:
	}
}

// failed notes why there is no stream.
func (m *Member) failed(err error) {
	reason := setv1alpha1.ReasonNotReached
	switch {
	case err == nil:
		return
	case isRefusal(err):
		reason = setv1alpha1.ReasonRefused
	case isVersion(err):
		reason = setv1alpha1.ReasonVersion
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state.why != err.Error() {
		m.Log.Info("There is no connection to the hub; what it has sent stays in force", "reason", err.Error())
	}
	m.state.connected, m.state.why, m.state.reason = false, err.Error(), reason
}

// tell keeps the status of the Membership current.
func (m *Member) tell(ctx context.Context) {
	ticker := m.Clock.NewTicker(statusPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		present, err := m.membership(ctx)
		if err != nil || present == nil {
			continue
		}
		m.look(present)
		declare(ctx, m)
		readWritten(ctx, m)
		writeExports(ctx, m)
		if err := m.followExports(ctx, true); err != nil && ctx.Err() == nil {
			m.Log.V(1).Info("It cannot be found out whether Services are exported, trying again", "reason", err.Error())
		}
		next := present.DeepCopy()
		if !m.describe(next) {
			continue
		}
		if err := m.Client.Status().Update(ctx, next); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
			m.Log.V(1).Info("The status of the Membership was not written, trying again", "reason", err.Error())
		}
	}
}

// look finds out whether workloads of other clusters in peers have expired.
func (m *Member) look(o *setv1alpha1.Membership) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(o)
	m.give()
}

// expire makes workloads of other clusters in peers count no more when the hub has been silent for
// longer than the Membership says. They count again when the hub has sent everything. The caller
// holds the lock.
func (m *Member) expire(o *setv1alpha1.Membership) {
	after := o.Spec.StaleAfter
	switch {
	case after == nil:
		m.book.Expire(false)
	case !m.state.heard.IsZero() && !m.state.connected && m.Clock.Since(m.state.heard) >= after.Duration:
		m.book.Expire(true)
	}
}

// Silent is for how long the hub was not heard of; false if there is none.
func (m *Member) Silent() (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.state.membership == nil || m.state.heard.IsZero():
		return 0, false
	case m.state.connected:
		return 0, true
	}
	return max(0, m.Clock.Since(m.state.heard)), true
}

// describe fills in the status; false if nothing is new.
func (m *Member) describe(o *setv1alpha1.Membership) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state.membership == nil || m.state.membership.UID != o.UID {
		return false
	}
	before := o.Status.DeepCopy()
	s, now := &o.Status, m.state
	set := func(kind string, is bool, reason, message string) {
		status := metav1.ConditionFalse
		if is {
			status, reason, message = metav1.ConditionTrue, setv1alpha1.ReasonOK, ""
		}
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: o.Generation, LastTransitionTime: metav1.NewTime(m.Clock.Now()),
		})
	}
	if now.taken != nil {
		s.TakenAccounts = takenOf(now.taken, &o.Spec.Accept)
	}
	cert := m.certificate.State()
	if cert.Authority != "" {
		s.Authority = cert.Authority
	}
	if !cert.Ends.IsZero() {
		ends := metav1.NewTime(cert.Ends)
		s.CertificateEnds = &ends
	}
	if now.labels != nil {
		s.Labels = now.labels
	}
	if !now.heard.IsZero() {
		heard := metav1.NewTime(now.heard.Truncate(time.Second))
		s.LastHeard = &heard
	}
	s.Policies, s.Expired = int32(m.ledger.Copies()), m.book.Expired()
	if cert.Joined || cert.Why != "" {
		set(setv1alpha1.MembershipJoined, cert.Joined, setv1alpha1.ReasonNoCredentials, cert.Why)
	}
	if now.connected || now.why != "" {
		set(setv1alpha1.MembershipConnected, now.connected, now.reason, now.why)
	}
	if now.declared.Name != "" {
		why := contradiction(now.declared, o.Spec.Cluster)
		set(setv1alpha1.MembershipNamed, why == "", setv1alpha1.ReasonContradicted, why)
	} else {
		meta.RemoveStatusCondition(&s.Conditions, setv1alpha1.MembershipNamed)
	}
	if now.connected {
		set(setv1alpha1.MembershipBelieved, now.refused == "", setv1alpha1.ReasonBounds, now.refused)
	}
	refused, message := m.ledger.Refused(), ""
	if len(refused) > 0 {
		message = refused[0]
		if len(refused) > 1 {
			message += fmt.Sprintf("; and %d more", len(refused)-1)
		}
	}
	set(setv1alpha1.MembershipAccepted, len(refused) == 0, setv1alpha1.ReasonNotAccepted, message)
	if equality.Semantic.DeepEqual(before, s) {
		return false
	}
	quiet := s.DeepCopy()
	quiet.LastHeard = before.LastHeard
	return !equality.Semantic.DeepEqual(before, quiet) || before.LastHeard == nil || now.heard.Sub(before.LastHeard.Time) >= heardPause
}

// takenOf are the regions of accounts that are left to other members, as far as the Membership lets
// the hub say so.
func takenOf(taken map[string]string, accept *setv1alpha1.Acceptance) []setv1alpha1.TakenAccount {
	if accept.Accounts != nil && !*accept.Accounts {
		return nil
	}
	var out []setv1alpha1.TakenAccount
	for _, region := range slices.Sorted(maps.Keys(taken)) {
		if by := taken[region]; wire.CheckAccount(region) == nil && len(by) <= 63 && len(out) < wire.MostAccounts {
			out = append(out, setv1alpha1.TakenAccount{Region: region, By: by})
		}
	}
	return out
}

// mayAnswer fails unless the Membership lets questions be answered.
func (m *Member) mayAnswer(ctx context.Context) error {
	membership, err := m.membership(ctx)
	if err != nil || membership == nil {
		return errors.Join(errLeft, err)
	}
	if accept := membership.Spec.Accept.Questions; accept != nil && !*accept {
		return errors.New("its Membership answers no questions")
	}
	return nil
}

// annotate tells Policies what is to be known of the groups that own policies name. The caller
// holds the lock.
func (m *Member) annotate() {
	m.Policies.PutPeerNotes(m.own.Notes(own.Connection{Member: m.state.membership != nil, Connected: m.state.connected, Version: m.state.version}))
}
