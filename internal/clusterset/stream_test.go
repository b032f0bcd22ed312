package clusterset_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/clusterset/hub"
	"github.com/nephele-io/nephele/internal/clusterset/member"
	"github.com/nephele-io/nephele/internal/clusterset/member/certificate"
	"github.com/nephele-io/nephele/internal/clusterset/setmap"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/enroll"
	"github.com/nephele-io/nephele/internal/enroll/credential"
	"github.com/nephele-io/nephele/internal/platform/keyring"
	"github.com/nephele-io/nephele/internal/policy"
)

// set is a hub and members that speak with it over TLS, each through a line that can be broken.
type set struct {
	testing.TB
	clock *clocktesting.FakeClock
	hub   *store
	desk  *enroll.Desk
	// server is that of the hub; stop ends its process.
	mu     sync.Mutex
	serves http.Handler
	now    *hub.Hub
	stop   func()
	server *httptest.Server
	sides  map[string]*side
	told   realizations
	tally
}

// tally is what the hub's statistics were told, by cluster and policy.
type tally struct {
	counting sync.Mutex
	counts   map[string]wire.Counted
}

// PutElsewhere implements hub.Statistics.
func (y *tally) PutElsewhere(cluster, epoch string, c *wire.Counted) {
	y.counting.Lock()
	defer y.counting.Unlock()
	if y.counts == nil {
		y.counts = map[string]wire.Counted{}
	}
	y.counts[cluster+"/"+epoch+"/"+c.UID] = *c
}

// DropElsewhere implements hub.Statistics.
func (y *tally) DropElsewhere(cluster string) {
	y.counting.Lock()
	defer y.counting.Unlock()
	maps.DeleteFunc(y.counts, func(key string, _ wire.Counted) bool { return strings.HasPrefix(key, cluster+"/") })
}

func (y *tally) counted(key string) wire.Counted {
	y.counting.Lock()
	defer y.counting.Unlock()
	return y.counts[key]
}

// side is a member with its line.
type side struct {
	*store
	name string
	line *line
	stop func()
	// judges, if set, says what becomes of a flow.
	judges func(from, to string) string
	// answers, if set, is what it answers for a map.
	answers func(q *setmap.Question) (json.RawMessage, error)
	// packets is what rule r of every policy has matched.
	packets atomic.Int64
	*knows
}

func (m *side) count(o client.Object) (wire.Counted, bool) {
	n := wire.Count{Packets: m.packets.Load()}
	return wire.Counted{Count: n, Rules: []wire.RuleCount{{Name: "r", Count: n}}}, convert.FromHub(o)
}

// Flow answers questions about this member: it allows what goes to port 5432, and says what it was
// asked.
func (m *side) Flow(_ context.Context, spec analysis.FlowReviewSpec) (analysis.FlowReviewStatus, error) {
	outcome := "Drop"
	switch spec.Port {
	case "5432":
		outcome = "Allow"
	case "1":
		panic("of a question")
	case "2":
		return analysis.FlowReviewStatus{}, errors.New("there is no such Pod")
	}
	if m.judges != nil {
		outcome = m.judges(spec.From, spec.To)
	}
	note := fmt.Sprintf("%s: %s to %s\x1b[2J", m.name, spec.From, spec.To)
	return analysis.FlowReviewStatus{FlowAnswer: analysis.FlowAnswer{Egress: &analysis.Decision{Outcome: outcome}, Ingress: &analysis.Decision{Outcome: outcome}, Notes: []string{note}}}, nil
}

// Sides answers for a map of the set: it allows port 5432 and drops everything else, and within the
// member everything passes.
func (m *side) Sides(_ context.Context, q *setmap.Question) (json.RawMessage, error) {
	if m.answers != nil {
		return m.answers(q)
	}
	places := func(n int) (out []int) {
		for i := range n {
			out = append(out, i)
		}
		return out
	}
	b, own, mine := setmap.NewBuilder(len(q.Own)), places(len(q.Own)), []analysis.Policy{{Type: "AntreaClusterNetworkPolicy", Name: "p"}}
	for i := range own {
		b.Hold(i, setmap.Hold{Policies: mine, In: true})
	}
	db := forecast.Packets{Ranges: []forecast.Range{{Protocol: 6, From: 5432, To: 5432}}}
	rest, all := forecast.Packets{Except: true, Ranges: db.Ranges}, forecast.Packets{Except: true}
	b.Out(own, places(len(q.To)), all, setmap.Decision{Outcome: "Allow"})
	b.In(places(len(q.From)), own, db, setmap.Decision{Outcome: "Allow", Ruled: true, Policies: mine})
	b.In(places(len(q.From)), own, rest, setmap.Decision{Outcome: "Drop", Ruled: true, Policies: mine})
	b.Within(own, own, all, setmap.Decision{Outcome: "Allow"})
	return b.Answer(q)
}

// knows is what the policy controller of a member has been given.
type knows struct {
	mu       sync.Mutex
	entities map[policy.EntityRef]policy.Entity
	// first and least are, by group, how many there were when it began to be watched, and the
	// fewest since.
	first, least map[string]int
	// notes are what is told of the groups that own policies name.
	notes map[string]string
	// copied takes how far copies are realized that have no status.
	copied func(client.Object, v1beta1.NetworkPolicyStatus)
}

// PutRemote implements member.Policies.
func (k *knows) PutRemote(put []policy.Entity, gone []policy.EntityRef) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range put {
		k.entities[e.EntityRef] = e
	}
	for _, ref := range gone {
		delete(k.entities, ref)
	}
	for group := range k.least {
		k.least[group] = min(k.least[group], len(k.inside(group)))
	}
}

// PutPeerNotes implements member.Policies.
func (k *knows) PutPeerNotes(notes map[string]string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.notes = notes
}

// PutOwnLabels implements member.Policies.
func (*knows) PutOwnLabels(map[string]string) {}

// FollowCopies implements member.Policies.
func (k *knows) FollowCopies(follow func(client.Object, v1beta1.NetworkPolicyStatus)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.copied = follow
}

func (k *knows) inside(group string) []string {
	var out []string
	for ref, e := range k.entities {
		if _, in := e.Labels[group]; in || group == "" {
			out = append(out, ref.Name)
		}
	}
	slices.Sort(out)
	return out
}

// all are the addresses of other clusters' workloads that are in any group.
func (k *knows) all() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.inside("")
}

// groups has the members of each group.
func (k *knows) groups() map[string][]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[string][]string{}
	for _, e := range k.entities {
		for group := range e.Labels {
			if out[group] == nil {
				out[group] = k.inside(group)
			}
		}
	}
	return out
}

// watch begins to note how small the groups become that there are.
func (k *knows) watch() {
	all := k.groups()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.first, k.least = map[string]int{}, map[string]int{}
	for group, who := range all {
		k.first[group], k.least[group] = len(who), len(who)
	}
}

// shrunk are the groups that were smaller than at first, be it for a moment.
func (k *knows) shrunk() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []string
	for group, n := range k.least {
		if n < k.first[group] {
			out = append(out, fmt.Sprintf("%s had %d of %d", group, n, k.first[group]))
		}
	}
	return out
}

// realizations is what the hub's policy controller has been told.
type realizations struct {
	mu  sync.Mutex
	all map[string][]v1beta1.ClusterRealization
	// panics makes every call panic, panicked counts them.
	panics   bool
	panicked int
}

// RealizedInClusters implements hub.Policies.
func (r *realizations) RealizedInClusters(uid string, in []v1beta1.ClusterRealization) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.panics {
		r.panicked++
		panic("about a policy")
	}
	r.all[uid] = slices.Clone(in)
}

func (r *realizations) panicking(panics bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.panics, r.panicked = panics, 0
}

func (r *realizations) of(uid, cluster string) v1beta1.ClusterRealization {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.all[uid] {
		if c.Name == cluster {
			return c
		}
	}
	return v1beta1.ClusterRealization{}
}

func newSet(t testing.TB, members ...string) *set {
	s := &set{TB: t, clock: clocktesting.NewFakeClock(time.Now()), hub: newStore(t), sides: map[string]*side{}, told: realizations{all: map[string][]v1beta1.ClusterRealization{}}}
	var err error
	s.desk, err = enroll.OpenDesk(t.Context(), enroll.DeskOptions{Client: s.hub, Live: s.hub, Namespace: "kube-system", Clock: s.clock, Log: logr.Discard()})
	s.must(err)
	s.must(s.desk.FollowClusters(t.Context(), s.hub))
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		now := s.serves
		s.mu.Unlock()
		if now == nil {
			http.Error(w, "no process", http.StatusServiceUnavailable)
			return
		}
		now.ServeHTTP(w, r)
	}))
	s.server.EnableHTTP2, s.server.Config.ErrorLog = true, log.New(io.Discard, "", 0) // lines are cut in handshakes, too
	s.server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		cert, key, err := s.desk.Serve() // another one when the authorities change
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		return &pair, err
	}}
	s.server.StartTLS()
	t.Cleanup(func() {
		s.kill()
		s.server.CloseClientConnections()
		s.server.Close()
	})
	s.must(s.hub.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "antrea-ca"}, Data: map[string]string{enroll.AuthorityKey: string(s.desk.Bundle())}}))
	s.run()
	for i, name := range members {
		s.join(name, fmt.Sprintf("10.%d.0.0/16", i+1))
	}
	return s
}

func (s *set) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// run starts a process of the hub.
func (s *set) run() {
	ctx, cancel := context.WithCancel(s.Context())
	h := hub.New(hub.Options{Client: s.hub, Live: s.hub, Informers: s.hub, Policies: &s.told, Statistics: &s.tally, Clock: s.clock, Log: logr.Discard(), Program: "1", Epoch: fmt.Sprint(s.clock.Now())})
	var running sync.WaitGroup
	running.Go(func() { _ = h.Start(ctx) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = h
	s.serves = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Done()
		within, end := context.WithCancel(r.Context())
		defer end()
		defer context.AfterFunc(ctx, end)()
		s.answer(h, w, r.WithContext(within))
	})
	s.stop = func() { cancel(); running.Wait() }
}

// answer is the hub's server, as far as members use it.
func (s *set) answer(h *hub.Hub, w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == credential.FeedPath || r.URL.Path == credential.RenewPath {
		if len(r.TLS.PeerCertificates) == 0 {
			http.Error(w, "show a certificate", http.StatusUnauthorized)
			return
		}
		id, ours, err := s.desk.Identify(r.Context(), r.TLS.PeerCertificates[0])
		if err != nil || !ours {
			http.Error(w, fmt.Sprint(err), http.StatusUnauthorized)
			return
		}
		if r.URL.Path == credential.FeedPath {
			ctx, leave := s.desk.Stay(r.Context(), id)
			defer leave()
			h.ServeMember(w, r.WithContext(ctx), id.Host.Name)
			return
		}
		s.paper(w, r, func(asked credential.Asked) (credential.Papers, error) {
			return s.desk.Renew(r.Context(), id, []byte(asked.Request))
		})
		return
	}
	s.paper(w, r, func(asked credential.Asked) (credential.Papers, error) {
		return s.desk.Redeem(r.Context(), asked, netip.MustParseAddr("127.0.0.1"))
	})
}

func (*set) paper(w http.ResponseWriter, r *http.Request, ask func(credential.Asked) (credential.Papers, error)) {
	var asked credential.Asked
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	papers, err := ask(asked)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	_ = json.NewEncoder(w).Encode(papers)
}

// kill ends the process of the hub.
func (s *set) kill() {
	s.mu.Lock()
	stop := s.stop
	s.serves, s.stop = nil, nil
	s.mu.Unlock()
	if stop != nil {
		s.server.CloseClientConnections()
		stop()
	}
}

// join makes a Cluster, and a member that joins as it.
func (s *set) join(name, pods string) { s.joinAs(name, pods, newStore(s.TB)) }

// joinAs does so for the cluster that has a store.
func (s *set) joinAs(name, pods string, has *store) {
	s.Helper()
	c := &setv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"env": "prod"}}, Spec: setv1alpha1.ClusterSpec{Addresses: setv1alpha1.ClusterAddresses{Pods: []string{pods}}}}
	s.must(s.hub.Create(s.Context(), c))
	m := &side{store: has, name: name, line: newLine(s.TB, s.server.Listener.Addr().String())}
	s.sides[name] = m
	token, _, err := enroll.InviteCluster(s.Context(), s.hub, c, m.line.at(), time.Hour, s.clock.Now())
	s.must(err)
	s.must(m.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
	s.must(m.Create(s.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: certificate.CredentialsName}, Data: map[string][]byte{certificate.KeyToken: []byte(token.String())}}))
	s.must(m.Create(s.Context(), &setv1alpha1.Membership{ObjectMeta: metav1.ObjectMeta{Name: setv1alpha1.MembershipName}, Spec: setv1alpha1.MembershipSpec{Hub: []string{m.line.at()}, Cluster: name}}))
	s.boot(m)
	s.Cleanup(func() { m.stop() })
}

// boot starts the process of a member: what it knew before is what is on record.
func (s *set) boot(m *side) {
	if m.stop != nil {
		m.stop()
	}
	m.knows = &knows{entities: map[policy.EntityRef]policy.Entity{}}
	ctx, cancel := context.WithCancel(s.Context())
	one := member.New(member.Options{
		Client: m.store, Live: m.store, Informers: m.store, Policies: m.knows, Counted: m.count, Answers: m, Clock: s.clock, Random: func() float64 { return 0 }, Log: logr.Discard(),
		Namespace: "kube-system", Program: "1", Epoch: "e", ClusterID: "id-" + m.name,
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = one.Start(ctx)
	}()
	m.stop = func() { cancel(); <-done }
}

// until waits for something, and lets time go by meanwhile. What is waited for is the last thing
// that a change causes.
func (s *set) until(what string, is func() (bool, any)) {
	s.Helper()
	var last any
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var ok bool
		if ok, last = is(); ok {
			return
		}
		s.clock.Step(50 * time.Millisecond)
	}
	s.Fatalf("%s: %v", what, last)
}

// knowsAll waits until a member knows these addresses.
func (s *set) knowsAll(name string, want ...string) {
	s.Helper()
	slices.Sort(want)
	s.until(fmt.Sprintf("%s knows %v", name, shownAddresses(want)), func() (bool, any) {
		got := s.sides[name].all()
		return slices.Equal(got, want), shownAddresses(got)
	})
}

func shownAddresses(all []string) any {
	if len(all) > 20 {
		return fmt.Sprintf("%d addresses", len(all))
	}
	return all
}

// pod makes a Pod in a member.
func (s *set) pod(name, pod, app, ip string) *corev1.Pod {
	s.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: pod, Labels: map[string]string{"app": app}}, Status: corev1.PodStatus{PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}}}
	p.Spec.NodeName = "n"
	s.must(s.sides[name].Create(s.Context(), p))
	return p
}

// fromWeb is a policy of the hub for all: from Pods with app=APP of all clusters.
func fromWeb(name, app string) *v1beta1.ClusterNetworkPolicy {
	p := &v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{setv1alpha1.AnnotationClusters: "{}"}}}
	p.Spec.Priority = 5
	p.Spec.AppliedTo = []v1beta1.AppliedTo{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}}
	p.Spec.Ingress = []v1beta1.Rule{{Action: v1beta1.RuleActionAllow, From: []v1beta1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, Scope: v1beta1.ScopeClusterSet}}}}
	return p
}

func (s *set) cluster(name string) *setv1alpha1.Cluster {
	c := &setv1alpha1.Cluster{}
	s.must(s.hub.Get(s.Context(), client.ObjectKey{Name: name}, c))
	return c
}

// is waits until a condition of a Cluster is so.
func (s *set) is(name, condition string, want metav1.ConditionStatus) {
	s.Helper()
	s.until(fmt.Sprintf("%s is %s=%s", name, condition, want), func() (bool, any) {
		c := s.cluster(name)
		found := meta.FindStatusCondition(c.Status.Conditions, condition)
		return found != nil && found.Status == want, c.Status
	})
}

// line is between a member and the hub: it passes everything on until it is broken.
type line struct {
	testing.TB
	listener net.Listener
	to       string

	mu    sync.Mutex
	conns []net.Conn
	// refuses ends connections; held lets nothing through any more, without an error. slow holds
	// back what comes from the hub alone. left is after how many bytes up the line is cut; 0 is
	// never.
	refuses, held, slow bool
	left                int
	// up and down count what has passed.
	up, down int
	changed  chan struct{}
}

func newLine(t testing.TB, to string) *line {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{TB: t, listener: listener, to: to, changed: make(chan struct{})}
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			passing.Go(func() { l.pass(c) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		l.set(func() { l.held, l.slow, l.refuses = false, false, true })
		l.cut()
		passing.Wait()
	})
	return l
}

func (l *line) at() string { return l.listener.Addr().String() }

// set changes what the line does.
func (l *line) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
}

// cut ends all connections.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}

func (l *line) pass(near net.Conn) {
	far, err := net.Dial("tcp", l.to)
	l.mu.Lock()
	refuses := l.refuses || err != nil
	if !refuses {
		l.conns = append(l.conns, near, far)
	}
	l.mu.Unlock()
	defer func() { _ = near.Close() }()
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	if refuses {
		return
	}
	var both sync.WaitGroup
	copied := func(to, from net.Conn, up bool) {
		defer func() { _, _ = to.Close(), from.Close() }()
		buffer := make([]byte, 4<<10)
		for {
			n, err := from.Read(buffer)
			if err != nil || !l.may(n, up) {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
	both.Go(func() { copied(far, near, true) })
	both.Go(func() { copied(near, far, false) })
	both.Wait()
}

// may waits until bytes may go on; false cuts the line.
func (l *line) may(n int, up bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.held || l.slow && !up {
		changed := l.changed
		l.mu.Unlock()
		<-changed
		l.mu.Lock()
	}
	if up {
		l.up += n
	} else {
		l.down += n
	}
	if l.left > 0 && up {
		if l.left -= n; l.left <= 0 {
			l.left = 0
			return false
		}
	}
	return true
}

// TestStream: members join, each knows the peers of the policies in the others, and the hub
// receives what became of the policies.
func TestStream(t *testing.T) {
	s := newSet(t, "east", "west")
	s.pod("east", "web", "web", "10.1.0.5")
	forged := s.pod("east", "forged", "web", "10.2.0.9")
	s.pod("west", "db", "db", "10.2.0.7")
	p := fromWeb("p", "web")
	s.must(s.hub.Create(t.Context(), p))
	s.knowsAll("west", "10.1.0.5")
	s.is("east", setv1alpha1.ClusterClaimsRefused, metav1.ConditionTrue)
	s.must(s.sides["east"].Delete(t.Context(), forged))
	s.is("east", setv1alpha1.ClusterClaimsRefused, metav1.ConditionFalse)
	s.is("west", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	s.until("the hub is told", func() (bool, any) {
		r := s.told.of(string(p.UID), "west")
		return r.ObservedGeneration == 1 && r.Phase == string(v1beta1.NetworkPolicyPending), r
	})
	s.must(s.hub.Delete(t.Context(), p))
	s.knowsAll("west")
	s.until("the copy is gone", func() (bool, any) {
		err := s.sides["west"].Get(t.Context(), client.ObjectKey{Name: "hub-p"}, &v1beta1.ClusterNetworkPolicy{})
		return err != nil && client.IgnoreNotFound(err) == nil, err
	})
}

// TestUndone: a copy that somebody changes or deletes is put right, whatever its kind, and the hub
// is told of it: with a phase where the kind has one.
func TestUndone(t *testing.T) {
	s := newSet(t, "west")
	west := s.sides["west"]
	spread := metav1.ObjectMeta{Namespace: "shop", Name: "p", Annotations: map[string]string{setv1alpha1.AnnotationClusters: "{}"}}
	wide, inside, plain := &v1beta1.ClusterNetworkPolicy{}, &v1beta1.NetworkPolicy{}, &networkingv1.NetworkPolicy{}
	for kind, c := range map[string]struct {
		of, copied client.Object
		edit       func()
		right      func() bool
		phase      string
	}{
		"ClusterNetworkPolicy": {fromWeb("p", "web"), wide, func() { wide.Spec.Priority = 7 }, func() bool { return wide.Spec.Priority == 5 }, "Pending"},
		"NetworkPolicy of Antrea": {
			&v1beta1.NetworkPolicy{ObjectMeta: *spread.DeepCopy(), Spec: fromWeb("", "web").Spec}, inside,
			func() { inside.Spec.Ingress = nil }, func() bool { return len(inside.Spec.Ingress) == 1 }, "Pending",
		},
		"NetworkPolicy of Kubernetes": {
			&networkingv1.NetworkPolicy{ObjectMeta: *spread.DeepCopy(), Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{"Ingress"}}}, plain,
			func() { plain.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}} }, func() bool { return len(plain.Spec.Ingress) == 0 }, v1beta1.PhaseUnknown,
		},
	} {
		t.Run(kind, func(t *testing.T) {
			s.must(s.hub.Create(t.Context(), c.of))
			s.until(kind+": the hub is told", func() (bool, any) {
				r := s.told.of(string(c.of.GetUID()), "west")
				return r.ObservedGeneration == 1 && r.Phase == c.phase && r.Reason == "", r
			})
			key := client.ObjectKey{Namespace: c.of.GetNamespace(), Name: "hub-p"}
			right := func() (bool, any) {
				err := west.Get(t.Context(), key, c.copied)
				return err == nil && c.right(), fmt.Sprint(err, c.copied)
			}
			s.until(kind+": the copy is there", right)
			c.edit()
			s.must(west.Update(t.Context(), c.copied))
			s.until(kind+": the edit is undone", right)
			s.must(west.Delete(t.Context(), c.copied))
			s.until(kind+": the copy is back", right)
		})
	}
}

// TestKinds: policies of Namespaces come where such a Namespace is, Antrea's and Kubernetes'.
func TestKinds(t *testing.T) {
	s := newSet(t, "east", "west")
	spread := metav1.ObjectMeta{Namespace: "shop", Name: "p", Annotations: map[string]string{setv1alpha1.AnnotationClusters: "{}"}}
	late := *spread.DeepCopy()
	late.Namespace = "late"
	antrea := &v1beta1.NetworkPolicy{ObjectMeta: spread}
	antrea.Spec.Priority, antrea.Spec.AppliedTo = 5, []v1beta1.AppliedTo{{PodSelector: &metav1.LabelSelector{}}}
	antrea.Spec.Ingress = fromWeb("", "web").Spec.Ingress
	s.must(s.hub.Create(t.Context(), antrea))
	s.must(s.hub.Create(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: *spread.DeepCopy()}))
	s.must(s.hub.Create(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: late}))
	s.pod("east", "web", "web", "10.1.0.5")
	s.knowsAll("west", "10.1.0.5")
	has := func(namespace string, o client.Object) {
		t.Helper()
		s.until(fmt.Sprintf("%T in %s", o, namespace), func() (bool, any) {
			err := s.sides["west"].Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "hub-p"}, o)
			return err == nil, err
		})
	}
	has("shop", &v1beta1.NetworkPolicy{})
	has("shop", &networkingv1.NetworkPolicy{})
	if err := s.sides["west"].Get(t.Context(), client.ObjectKey{Namespace: "late", Name: "hub-p"}, &networkingv1.NetworkPolicy{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("a policy in a Namespace that is not there: %v", err)
	}
	s.must(s.sides["west"].Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "late"}}))
	has("late", &networkingv1.NetworkPolicy{})
}

// TestCuts: a line that breaks in the middle of a listing, one that is dead without a word, and a
// member that does not read hold up nobody else, lose nothing and make no group smaller.
func TestCuts(t *testing.T) {
	s := newSet(t, "east", "west", "north")
	s.must(s.hub.Create(t.Context(), fromWeb("p", "web")))
	east := s.sides["east"]
	s.is("east", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	s.is("north", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	east.line.set(func() { east.line.refuses = true })
	east.line.cut()
	s.is("east", setv1alpha1.ClusterConnected, metav1.ConditionFalse)
	var want []string
	for i := range 3000 {
		ip := fmt.Sprintf("10.1.%d.%d", i/200, 1+i%200)
		s.pod("east", fmt.Sprintf("web-%d", i), "web", ip)
		want = append(want, ip)
	}
	// Some cuts in the listing: each after more has come.
	for _, after := range []int{10_000, 50_000, 100_000} {
		east.line.set(func() { east.line.refuses, east.line.left = false, after })
		s.until("the line is cut in the middle", func() (bool, any) {
			east.line.mu.Lock()
			defer east.line.mu.Unlock()
			return east.line.left == 0, east.line.left
		})
	}
	s.knowsAll("west", want...)
	s.knowsAll("north", want...)
	s.sides["west"].watch()
	s.sides["north"].watch()

	// East is dead without a word, and changes meanwhile; north does not read.
	north := s.sides["north"]
	east.line.set(func() { east.line.held = true })
	north.line.set(func() { north.line.slow = true })
	s.pod("east", "late", "web", "10.1.99.1")
	s.is("east", setv1alpha1.ClusterConnected, metav1.ConditionFalse)
	s.knowsAll("west", want...)
	east.line.cut()
	east.line.set(func() { east.line.held = false })
	s.knowsAll("west", append(want, "10.1.99.1")...)
	north.line.cut()
	north.line.set(func() { north.line.slow = false })
	s.knowsAll("north", append(want, "10.1.99.1")...)
	for _, name := range []string{"west", "north"} {
		if all := s.sides[name].shrunk(); len(all) > 0 {
			t.Errorf("%s: %v", name, all)
		}
	}
}

// passed is how much has passed a line since it was asked last.
func (l *line) passed() (up, down int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	up, down, l.up, l.down = l.up, l.down, 0, 0
	return up, down
}

// TestResume: a stream that breaks goes on with what is new at both ends. One that cannot go on,
// because the hub has begun anew or has forgotten, or the member has, begins with everything.
func TestResume(t *testing.T) {
	s := newSet(t, "east", "west")
	s.must(s.hub.Create(t.Context(), fromWeb("p", "web")))
	var want []string
	pods := map[string]*corev1.Pod{}
	for i := range 3000 {
		ip := fmt.Sprintf("10.1.%d.%d", i/200, 1+i%200)
		pods[ip] = s.pod("east", fmt.Sprintf("web-%d", i), "web", ip)
		want = append(want, ip)
	}
	s.knowsAll("west", want...)
	east, west := s.sides["east"], s.sides["west"]
	next := 0
	broken := func(what string, between func(), whole bool) {
		t.Helper()
		for _, name := range []string{"east", "west"} {
			s.is(name, setv1alpha1.ClusterInSync, metav1.ConditionTrue)
			line := s.sides[name].line
			line.set(func() { line.refuses = true })
			line.cut()
			s.is(name, setv1alpha1.ClusterConnected, metav1.ConditionFalse)
			line.passed()
		}
		next++
		s.must(east.Delete(t.Context(), pods[want[0]]))
		fresh := fmt.Sprintf("10.1.200.%d", next)
		s.pod("east", fmt.Sprintf("late-%d", next), "web", fresh)
		want = append(want[1:], fresh)
		between()
		for _, m := range []*side{east, west} {
			m.line.set(func() { m.line.refuses = false })
		}
		s.knowsAll("west", want...)
		s.is("west", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
		up, _ := east.line.passed()
		_, down := west.line.passed()
		t.Logf("%s: %d bytes up, %d down", what, up, down)
		if (up > 100_000) != whole || (down > 30_000) != whole {
			t.Errorf("%s: %d bytes up and %d down", what, up, down)
		}
	}
	broken("a break", func() {}, false)
	broken("another", func() {}, false)
	broken("the hub begins anew", func() { s.kill(); s.run() }, true)
	broken("a break after that", func() {}, false)
	broken("the hub has forgotten", func() { s.clock.Step(20 * time.Minute) }, true)
	broken("both members begin anew", func() { s.boot(east); s.boot(west) }, true)
}

// TestHubBeginsAnew: a hub that begins anew makes no group smaller for want of members that have
// not spoken to it yet, be the group an old one or a new one. When they speak, that counts.
func TestHubBeginsAnew(t *testing.T) {
	s := newSet(t, "east", "west")
	p := fromWeb("p", "web")
	s.must(s.hub.Create(t.Context(), p))
	s.pod("east", "web", "web", "10.1.0.5")
	gone := s.pod("east", "api", "api", "10.1.0.6")
	s.knowsAll("west", "10.1.0.5")
	s.until("east is on record", func() (bool, any) {
		var all setv1alpha1.ClusterRecordList
		s.must(s.hub.List(t.Context(), &all))
		return slices.ContainsFunc(all.Items, func(r setv1alpha1.ClusterRecord) bool { return r.Cluster == "east" && r.Entities == 2 }), all.Items
	})
	s.sides["west"].watch()
	s.kill()
	east := s.sides["east"]
	east.line.set(func() { east.line.refuses = true })
	s.run()
	s.is("west", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	next := fromWeb("p", "api") // the same policy, with another group
	s.must(s.hub.Get(t.Context(), client.ObjectKeyFromObject(p), p))
	p.Spec = next.Spec
	s.must(s.hub.Update(t.Context(), p))
	s.knowsAll("west", "10.1.0.6")
	s.must(east.Delete(t.Context(), gone))
	s.pod("east", "api-2", "api", "10.1.0.7")
	if got := s.sides["west"].all(); !slices.Equal(got, []string{"10.1.0.6"}) {
		t.Errorf("%v before east has spoken", got)
	}
	east.line.set(func() { east.line.refuses = false })
	s.knowsAll("west", "10.1.0.7")
	// What is on record goes with the Cluster.
	s.must(s.hub.Delete(t.Context(), s.cluster("east")))
	s.knowsAll("west")
	s.until("the record is gone", func() (bool, any) {
		var all setv1alpha1.ClusterRecordList
		s.must(s.hub.List(t.Context(), &all))
		return !slices.ContainsFunc(all.Items, func(r setv1alpha1.ClusterRecord) bool { return r.Cluster == "east" }), all.Items
	})
}

// TestRenewal: the certificate is renewed while the stream lasts, so that a member whose stream was
// never cut is still known when it is. A stream does not last longer than its certificate.
func TestRenewal(t *testing.T) {
	s := newSet(t, "east")
	s.is("east", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	east := s.sides["east"]
	ends := func() time.Time {
		var secret corev1.Secret
		s.must(east.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: certificate.CredentialsName}, &secret))
		cert, ok := credential.ParseCertificate(secret.Data["tls.crt"])
		if !ok || len(secret.Data[certificate.KeyToken]) > 0 {
			t.Fatal("no certificate, or still the token")
		}
		return cert.Expires
	}
	first := ends()
	// Beyond two thirds, by steps in which the stream need not be taken for dead.
	for s.clock.Now().Before(first.Add(-2 * 24 * time.Hour)) {
		s.clock.Step(time.Hour)
	}
	s.until("it is renewed", func() (bool, any) { return ends().After(first), first })
	for s.clock.Now().Before(first.Add(time.Hour)) {
		s.clock.Step(time.Hour)
	}
	east.line.cut()
	s.pod("east", "web", "web", "10.1.0.5")
	s.until("it is known with the second certificate", func() (bool, any) {
		c := s.cluster("east")
		return c.Status.Entities == 1 && meta.IsStatusConditionTrue(c.Status.Conditions, setv1alpha1.ClusterInSync), c.Status
	})
}

// TestKeysOfASetRotate: another authority for members takes the place of the former one while the
// line is cut every day, and no member joins anew or loses a group.
func TestKeysOfASetRotate(t *testing.T) {
	s := newSet(t, "east", "west")
	s.must(s.hub.Create(t.Context(), fromWeb("p", "web")))
	s.pod("east", "web", "web", "10.1.0.5")
	s.knowsAll("west", "10.1.0.5")
	secret := func(name string) (out corev1.Secret) {
		s.must(s.sides[name].Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: certificate.CredentialsName}, &out))
		return out
	}
	left := func(name string) time.Duration {
		cert, ok := credential.ParseCertificate(secret(name).Data["tls.crt"])
		if !ok {
			t.Fatalf("%s has no certificate", name)
		}
		return cert.Expires.Sub(s.clock.Now())
	}
	before := string(s.desk.Bundle())
	place := enroll.Authorities()
	s.must(place.Change(t.Context(), s.hub, "kube-system", func(r keyring.Ring) (keyring.Ring, error) {
		made, err := place.Make(rand.Reader, s.clock.Now())
		if err != nil {
			return nil, err
		}
		return enroll.NextAuthorities(r, made, s.clock.Now())
	}))
	s.must(s.desk.Reread(t.Context()))
	if n := strings.Count(string(s.desk.Bundle()), "BEGIN CERTIFICATE"); n != 2 {
		t.Fatalf("%d authorities", n)
	}
	s.sides["west"].watch()
	want := []string{"10.1.0.5"}
	for day := 1; day <= 16; day++ {
		for range 24 {
			s.clock.Step(time.Hour)
		}
		s.must(s.desk.Reread(t.Context()))
		for _, name := range []string{"east", "west"} {
			s.until(fmt.Sprintf("day %d: %s has a certificate that lasts", day, name), func() (bool, any) { return left(name) > 2*24*time.Hour, left(name) })
			s.sides[name].line.cut()
		}
		address := fmt.Sprintf("10.1.0.%d", 10+day)
		want = append(want, address)
		s.pod("east", fmt.Sprint("web-", day), "web", address)
		s.knowsAll("west", want...)
	}
	if shrunk := s.sides["west"].shrunk(); len(shrunk) > 0 {
		t.Errorf("groups became smaller: %v", shrunk)
	}
	after := string(s.desk.Bundle())
	if strings.Contains(after, before) || strings.Count(after, "BEGIN CERTIFICATE") != 1 {
		t.Errorf("the former authority is still believed after 16 days:\n%s", after)
	}
	for _, name := range []string{"east", "west"} {
		if held := secret(name); len(held.Data[certificate.KeyToken]) > 0 || !strings.Contains(string(held.Data["ca.crt"]), strings.TrimSpace(after)) {
			t.Errorf("%s: %v", name, slices.Sorted(maps.Keys(held.Data)))
		}
	}
}

// TestKept: a member that leaves and keeps what is in force has it also when its process is another
// one, and tells the hub nothing more.
func TestKept(t *testing.T) {
	s := newSet(t, "east", "west")
	s.must(s.hub.Create(t.Context(), fromWeb("p", "web")))
	s.pod("east", "web", "web", "10.1.0.5")
	s.knowsAll("west", "10.1.0.5")
	west := s.sides["west"]
	s.is("west", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	s.until("the group is on record", func() (bool, any) {
		var all setv1alpha1.RemoteGroupList
		s.must(west.List(t.Context(), &all))
		return len(all.Items) == 1 && all.Items[0].Members == 1, all.Items
	})
	s.must(west.Delete(t.Context(), &setv1alpha1.Membership{ObjectMeta: metav1.ObjectMeta{Name: setv1alpha1.MembershipName}}))
	s.must(west.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: certificate.CredentialsName}}))
	s.is("west", setv1alpha1.ClusterConnected, metav1.ConditionFalse)
	s.pod("east", "web-2", "web", "10.1.0.6")
	s.until("the hub knows the second Pod", func() (bool, any) { return s.cluster("east").Status.Entities == 2, "" })
	s.boot(west)
	s.knowsAll("west", "10.1.0.5")
	if err := west.Get(t.Context(), client.ObjectKey{Name: "hub-p"}, &v1beta1.ClusterNetworkPolicy{}); err != nil {
		t.Error(err)
	}
}

// TestVersions: two that do not understand each other say so, both of them, and nothing changes.
func TestVersions(t *testing.T) {
	s := newSet(t, "east", "west")
	s.must(s.hub.Create(t.Context(), fromWeb("p", "web")))
	s.pod("east", "web", "web", "10.1.0.5")
	s.knowsAll("west", "10.1.0.5")
	// A member that speaks only what is newer.
	var secret corev1.Secret
	s.must(s.sides["east"].Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: certificate.CredentialsName}, &secret))
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	s.must(err)
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	hello := fmt.Sprintf(`{"hello":{"version":%d,"oldest":%d,"epoch":"x"}}`+"\n", wire.Version+2, wire.Version+1)
	response, err := (&http.Client{Transport: transport}).Post(s.server.URL+credential.FeedPath, "", strings.NewReader(hello))
	s.must(err)
	text, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil || !strings.Contains(string(text), "upgrade the older one") {
		t.Errorf("%v %s", err, text)
	}
	// A hub that does.
	west := s.sides["west"]
	s.kill()
	s.mu.Lock()
	s.serves = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = wire.Write(w, &wire.Down{Welcome: &wire.Welcome{Error: "the hub speaks versions 2 to 3"}})
	})
	s.mu.Unlock()
	s.until("the member says so", func() (bool, any) {
		var m setv1alpha1.Membership
		s.must(west.Get(t.Context(), client.ObjectKey{Name: setv1alpha1.MembershipName}, &m))
		c := meta.FindStatusCondition(m.Status.Conditions, setv1alpha1.MembershipConnected)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == setv1alpha1.ReasonVersion && strings.Contains(c.Message, "versions 2 to 3"), m.Status.Conditions
	})
	if got := west.all(); !slices.Equal(got, []string{"10.1.0.5"}) {
		t.Errorf("%v is left", got)
	}
}

// TestFlood: a member that says nonsense without end is cut off, and others are not held up.
func TestFlood(t *testing.T) {
	s := newSet(t, "east", "west")
	s.must(s.hub.Create(t.Context(), fromWeb("p", "web")))
	s.is("west", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	s.is("east", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	var secret corev1.Secret
	s.must(s.sides["west"].Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: certificate.CredentialsName}, &secret))
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	s.must(err)
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	body, up := io.Pipe()
	go func() {
		_, err := fmt.Fprintf(up, `{"hello":{"version":%d,"oldest":%d,"epoch":"x"}}`+"\n", wire.Version, wire.Oldest)
		for err == nil {
			_, err = up.Write([]byte("nonsense\n"))
		}
	}()
	response, err := (&http.Client{Transport: transport}).Post(s.server.URL+credential.FeedPath, "", body)
	s.must(err)
	_, _ = io.Copy(io.Discard, response.Body) // it ends
	_ = body.Close()
	_ = response.Body.Close()
	s.pod("east", "web", "web", "10.1.0.5")
	s.knowsAll("west", "10.1.0.5")
}

// ask asks the hub about a flow, and lets time go by until it answers.
func (s *set) ask(spec analysis.FlowReviewSpec) (analysis.FlowReviewStatus, error) {
	type answer struct {
		analysis.FlowReviewStatus
		error
	}
	done := make(chan answer, 1)
	go func() {
		status, err := s.now.Flow(s.Context(), spec)
		done <- answer{status, err}
	}()
	var got *answer
	s.until("the hub answers", func() (bool, any) {
		select {
		case a := <-done:
			got = &a
		default:
		}
		return got != nil, spec
	})
	return got.FlowReviewStatus, got.error
}

// TestQuestions: each half of a flow is answered by the cluster that knows it, as it sees the other
// end; a cluster that cannot be reached, does not answer or refuses is named.
func TestQuestions(t *testing.T) {
	s := newSet(t, "east", "west")
	s.pod("east", "web", "web", "10.1.0.5")
	db := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Status: corev1.PodStatus{PodIP: "10.2.0.7", PodIPs: []corev1.PodIP{{IP: "10.2.0.7"}}}}
	db.Spec.NodeName, db.Spec.Containers = "n", []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{{Name: "pg", ContainerPort: 5432, Protocol: corev1.ProtocolTCP}}}}
	s.must(s.sides["west"].Create(t.Context(), db))
	for _, name := range []string{"east", "west"} {
		s.until(name+" is known", func() (bool, any) { c := s.cluster(name); return c.Status.Entities == 1, c.Status })
	}
	asked := func(from, to, port string) string {
		t.Helper()
		a, err := s.ask(analysis.FlowReviewSpec{From: from, To: to, Port: port})
		if err != nil {
			return "wrong: " + err.Error()
		}
		out := a.Verdict
		for _, n := range a.Notes {
			out += " | " + n
		}
		for _, h := range a.Halves {
			out += " | " + h.Side + " "
			if h.Decision == nil {
				out += h.Why
				continue
			}
			out += h.Decision.Outcome + " " + strings.Join(h.Notes, " ")
		}
		return out
	}
	const both = "Allow | Egress Allow east: shop/web to 10.2.0.7 [2J | Ingress Allow west: 10.1.0.5 to shop/db [2J"
	check := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s\nwant %s", what, got, want)
		}
	}
	check("both", asked("east:shop/web", "west:shop/db", "5432"), both)
	check("a port by its name", asked("east:shop/web", "west:pod/shop/db", "pg"), strings.Replace(both, "shop/db", "pod/shop/db", 1))
	check("dropped", asked("east:shop/web", "west:shop/db", "80"), strings.ReplaceAll(both, "Allow", "Drop"))
	check("a panic", asked("east:shop/web", "west:shop/db", "1"), "Unknown | Egress it says: the question could not be answered | Ingress it says: the question could not be answered")
	check("an error", asked("east:shop/web", "west:shop/db", "2"), "Unknown | Egress it says: there is no such Pod | Ingress it says: there is no such Pod")
	check("an address of nobody's", asked("east:shop/web", "192.0.2.1", "5432"), "Unknown | Egress Allow east: shop/web to 192.0.2.1 [2J | Ingress nobody of the set is asked about an address that is no cluster's")
	for _, c := range [][3]string{{"south:shop/web", "west:shop/db", "no Cluster"}, {"east:shop/none", "west:shop/db", "has told of no"}, {"shop/web", "west:shop/db", "want the cluster"}, {"east:shop/web", "west:fd00::1", "one family"}} {
		if got := asked(c[0], c[1], "5432"); !strings.HasPrefix(got, "wrong: spec.") || !strings.Contains(got, c[2]) {
			t.Errorf("%v: %s", c, got)
		}
	}
	// Where west sees the Pods of east by another address, it is asked about that.
	east := s.cluster("east")
	east.Spec.SeenAs = []setv1alpha1.SeenAs{{To: "10.2.0.0/16", As: setv1alpha1.SeenEgress, Addresses: []string{"fd00::9", "192.0.2.9"}}}
	s.must(s.hub.Update(t.Context(), east))
	s.until("west is asked about the gateway", func() (bool, any) {
		got := asked("east:shop/web", "west:shop/db", "5432")
		return strings.Contains(got, "Ingress Allow west: 192.0.2.9 to shop/db"), got
	})
	s.must(s.hub.Get(t.Context(), client.ObjectKeyFromObject(east), east))
	east.Spec.SeenAs[0] = setv1alpha1.SeenAs{To: "10.2.0.0/16", As: setv1alpha1.SeenNode}
	s.must(s.hub.Update(t.Context(), east))
	s.until("it is not known what west sees", func() (bool, any) {
		got := asked("east:shop/web", "west:shop/db", "5432")
		return strings.HasPrefix(got, "Unknown") && strings.Contains(got, "Ingress it is not known by which address"), got
	})
	s.must(s.hub.Get(t.Context(), client.ObjectKeyFromObject(east), east))
	east.Spec.SeenAs = nil
	s.must(s.hub.Update(t.Context(), east))
	s.until("it is as before", func() (bool, any) { got := asked("east:shop/web", "west:shop/db", "5432"); return got == both, got })

	// Dead without a word, then cut.
	side := s.sides["east"]
	side.line.set(func() { side.line.held = true })
	got := asked("east:shop/web", "west:shop/db", "5432")
	check("dead", got, "Unknown | Egress it has not answered within 5s | Ingress Allow west: 10.1.0.5 to shop/db [2J")
	check("dead, but dropped by the other", asked("east:shop/web", "west:shop/db", "80"), "Drop | Egress it has not answered within 5s | Ingress Drop west: 10.1.0.5 to shop/db [2J")
	side.line.set(func() { side.line.refuses = true })
	side.line.cut()
	s.is("east", setv1alpha1.ClusterConnected, metav1.ConditionFalse)
	if got := asked("east:shop/web", "west:shop/db", "5432"); !strings.HasPrefix(got, "Unknown | Egress it cannot be reached: last heard of at ") {
		t.Error(got)
	}
	side.line.set(func() { side.line.held, side.line.refuses = false, false })
	s.is("east", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	check("back", asked("east:shop/web", "west:shop/db", "5432"), both)

	// One that answers nothing.
	var m setv1alpha1.Membership
	s.must(side.Get(t.Context(), client.ObjectKey{Name: setv1alpha1.MembershipName}, &m))
	no := false
	m.Spec.Accept.Questions = &no
	s.must(side.Update(t.Context(), &m))
	check("refused", asked("east:shop/web", "west:shop/db", "5432"), "Unknown | Egress it says: its Membership answers no questions | Ingress Allow west: 10.1.0.5 to shop/db [2J")
}

// TestStale: a member that is silent for longer than the limit does not count any more in rules
// that allow, and always in others; it counts again when it is heard. That is so for a member that
// its hub does not hear, and for a hub that a member does not hear, also when processes are other
// ones.
func TestStale(t *testing.T) {
	s := newSet(t, "east", "west")
	s.must(s.hub.Create(t.Context(), fromWeb("allows", "web")))
	drops := fromWeb("drops", "bad")
	drops.Spec.Ingress[0].Action = v1beta1.RuleActionDrop
	s.must(s.hub.Create(t.Context(), drops))
	s.pod("east", "web", "web", "10.1.0.5")
	s.pod("east", "bad", "bad", "10.1.0.6")
	inGroups := func(what string, want ...string) {
		t.Helper()
		s.until(what, func() (bool, any) {
			var got []string
			for _, who := range s.sides["west"].groups() {
				got = append(got, who...)
			}
			slices.Sort(got)
			return slices.Equal(got, want), got
		})
	}
	inGroups("both", "10.1.0.5", "10.1.0.6")
	east, west := s.sides["east"], s.sides["west"]
	c := s.cluster("east")
	c.Spec.StaleAfter = &metav1.Duration{Duration: 5 * time.Minute}
	s.must(s.hub.Update(t.Context(), c))
	s.is("west", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	east.line.set(func() { east.line.refuses = true })
	east.line.cut()
	s.is("east", setv1alpha1.ClusterConnected, metav1.ConditionFalse)
	inGroups("not yet", "10.1.0.5", "10.1.0.6")
	s.clock.Step(5 * time.Minute) // streams end, and begin anew
	inGroups("the allowed one has expired", "10.1.0.6")
	s.kill()
	s.run()
	s.is("west", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	inGroups("for a hub that begins anew as well", "10.1.0.6")
	east.line.set(func() { east.line.refuses = false })
	inGroups("it is heard", "10.1.0.5", "10.1.0.6")

	var m setv1alpha1.Membership
	key := client.ObjectKey{Name: setv1alpha1.MembershipName}
	s.must(west.Get(t.Context(), key, &m))
	m.Spec.StaleAfter = &metav1.Duration{Duration: 5 * time.Minute}
	s.must(west.Update(t.Context(), &m))
	west.line.set(func() { west.line.refuses = true })
	west.line.cut()
	expired := func(want bool) {
		t.Helper()
		s.until("the status says so", func() (bool, any) {
			s.must(west.Get(t.Context(), key, &m))
			return m.Status.Expired == want, m.Status
		})
	}
	s.until("west is not connected", func() (bool, any) {
		s.must(west.Get(t.Context(), key, &m))
		return meta.IsStatusConditionFalse(m.Status.Conditions, setv1alpha1.MembershipConnected), m.Status
	})
	s.clock.Step(5 * time.Minute)
	expired(true)
	inGroups("in the member", "10.1.0.6")
	s.boot(west)
	inGroups("and in one that begins anew", "10.1.0.6")
	west.line.set(func() { west.line.refuses = false })
	inGroups("the hub is heard", "10.1.0.5", "10.1.0.6")
	expired(false)
}

// TestHubAsMember: a hub that joins its own set takes part in it as any other member.
func TestHubAsMember(t *testing.T) {
	s := newSet(t, "east")
	s.joinAs("home", "10.9.0.0/16", s.hub)
	s.must(s.hub.Create(t.Context(), fromWeb("p", "web")))
	s.pod("east", "web", "web", "10.1.0.5")
	s.pod("home", "web", "web", "10.9.0.5")
	s.knowsAll("east", "10.9.0.5")
	s.knowsAll("home", "10.1.0.5")
	s.is("home", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	// Its copy is the one that is enforced there, and goes to nobody else.
	copied, key := &v1beta1.ClusterNetworkPolicy{}, client.ObjectKey{Name: "hub-p"}
	s.must(s.hub.Get(t.Context(), key, copied))
	if _, spread := copied.Annotations[setv1alpha1.AnnotationClusters]; spread {
		t.Error("the copy is for other clusters")
	}
	if c := s.cluster("east"); c.Status.Policies != 1 {
		t.Errorf("east is to have %d policies", c.Status.Policies)
	}
	s.must(s.hub.Delete(t.Context(), &v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}))
	s.until("the copy is gone", func() (bool, any) {
		err := s.hub.Get(t.Context(), key, copied)
		return err != nil && client.IgnoreNotFound(err) == nil, err
	})
}

// TestAccountTaken: two members that work on one region of a cloud account are told, the one that
// was there first has it, and one that may not say so is not believed.
func TestAccountTaken(t *testing.T) {
	s := newSet(t, "east", "west")
	account := func(name string, mode cloudv1.EnforcementMode, regions ...string) *cloudv1.CloudProviderAccount {
		t.Helper()
		a := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "a"}}
		a.Spec.Mode, a.Spec.AWSConfig, a.Status.CloudAccountID = mode, &cloudv1.CloudProviderAccountAWSConfig{}, "111122223333"
		for _, r := range regions {
			a.Status.Regions = append(a.Status.Regions, cloudv1.RegionStatus{Name: r})
		}
		s.must(s.sides[name].Create(t.Context(), a))
		return a
	}
	refused := func(name, want string) {
		t.Helper()
		s.until(name+" is refused: "+want, func() (bool, any) {
			c := meta.FindStatusCondition(s.cluster(name).Status.Conditions, setv1alpha1.ClusterClaimsRefused)
			var m setv1alpha1.Membership
			s.must(s.sides[name].Get(t.Context(), client.ObjectKey{Name: setv1alpha1.MembershipName}, &m))
			b := meta.FindStatusCondition(m.Status.Conditions, setv1alpha1.MembershipBelieved)
			if c == nil || b == nil {
				return false, m.Status
			}
			is := c.Status == metav1.ConditionFalse && b.Status == metav1.ConditionTrue
			if want != "" {
				is = strings.Contains(c.Message, want) && strings.Contains(b.Message, want) && b.Status == metav1.ConditionFalse
			}
			return is, fmt.Sprintf("%+v %+v", c, b)
		})
	}
	account("east", "", "eu-west-1", "eu-west-2")
	planned := account("west", cloudv1.ModePlan, "eu-west-2", "us-east-1")
	refused("west", "")
	planned.Spec.Mode = ""
	s.must(s.sides["west"].Update(t.Context(), planned))
	refused("west", "aws/111122223333/eu-west-2 is worked on by east")
	yields := func(name string, want ...string) {
		t.Helper()
		s.until(fmt.Sprintf("%s yields %v", name, want), func() (bool, any) {
			var m setv1alpha1.Membership
			s.must(s.sides[name].Get(t.Context(), client.ObjectKey{Name: setv1alpha1.MembershipName}, &m))
			var got []string
			for _, a := range m.Status.TakenAccounts {
				got = append(got, a.Region+" "+a.By)
			}
			return slices.Equal(got, want), m.Status.TakenAccounts
		})
	}
	yields("west", "aws/111122223333/eu-west-2 east")
	yields("east")
	// A hub that begins anew and has not heard of east takes nothing back, nor does a member that
	// begins anew.
	s.kill()
	line := s.sides["east"].line
	line.set(func() { line.refuses = true })
	s.run()
	s.boot(s.sides["west"])
	s.is("west", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	s.until("west is told what is unheard", func() (bool, any) {
		var m setv1alpha1.Membership
		s.must(s.sides["west"].Get(t.Context(), client.ObjectKey{Name: setv1alpha1.MembershipName}, &m))
		return meta.IsStatusConditionTrue(m.Status.Conditions, setv1alpha1.MembershipBelieved), m.Status
	})
	yields("west", "aws/111122223333/eu-west-2 east")
	line.set(func() { line.refuses = false })
	s.is("east", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	// Whose Cluster names its accounts goes before whose does not.
	s.amend("west", func(c *setv1alpha1.ClusterSpec) { c.Accounts = []string{"aws/*"} })
	yields("east", "aws/111122223333/eu-west-2 west")
	yields("west")
	s.amend("west", func(c *setv1alpha1.ClusterSpec) { c.Accounts = nil })
	yields("west", "aws/111122223333/eu-west-2 east")
	yields("east")
	// A member may not leave that to the hub.
	var m setv1alpha1.Membership
	s.must(s.sides["west"].Get(t.Context(), client.ObjectKey{Name: setv1alpha1.MembershipName}, &m))
	no := false
	m.Spec.Accept.Accounts = &no
	s.must(s.sides["west"].Update(t.Context(), &m))
	yields("west")
	s.must(s.sides["west"].Get(t.Context(), client.ObjectKey{Name: setv1alpha1.MembershipName}, &m))
	m.Spec.Accept.Accounts = nil
	s.must(s.sides["west"].Update(t.Context(), &m))
	yields("west", "aws/111122223333/eu-west-2 east")
	refused("east", "")
	planned.Status.Regions = planned.Status.Regions[1:]
	s.must(s.sides["west"].Update(t.Context(), planned))
	refused("west", "")
	c := s.cluster("west")
	c.Spec.Accounts = []string{"azure/*"}
	s.must(s.hub.Update(t.Context(), c))
	refused("west", "aws/111122223333/us-east-1 is not among its spec.accounts")
	s.must(s.hub.Get(t.Context(), client.ObjectKeyFromObject(c), c))
	c.Spec.Accounts = []string{"aws/111122223333/*"}
	s.must(s.hub.Update(t.Context(), c))
	refused("west", "")
}

// TestPanics: what a member tells may make the hub panic without ending anything but the stream of
// that member, and all is well when it does not any more.
func TestPanics(t *testing.T) {
	s := newSet(t, "east", "west")
	p := fromWeb("p", "web")
	s.must(s.hub.Create(t.Context(), p))
	s.pod("east", "web", "web", "10.1.0.5")
	s.knowsAll("west", "10.1.0.5")
	s.until("the hub is told", func() (bool, any) { r := s.told.of(string(p.UID), "west"); return r.ObservedGeneration == 1, r })
	s.told.panicking(true)
	copied := &v1beta1.ClusterNetworkPolicy{}
	s.must(s.sides["west"].Get(t.Context(), client.ObjectKey{Name: "hub-p"}, copied))
	copied.Status.Phase, copied.Status.ObservedGeneration = v1beta1.NetworkPolicyRealized, copied.Generation
	s.must(s.sides["west"].Client.Status().Update(t.Context(), copied)) // the news that make it panic
	s.until("it panics, and goes on", func() (bool, any) {
		s.told.mu.Lock()
		defer s.told.mu.Unlock()
		return s.told.panicked >= 3, s.told.panicked
	})
	s.told.panicking(false)
	s.pod("east", "web-2", "web", "10.1.0.6")
	s.knowsAll("west", "10.1.0.5", "10.1.0.6")
	s.until("the hub is told the phase", func() (bool, any) {
		r := s.told.of(string(p.UID), "west")
		return r.Phase == string(v1beta1.NetworkPolicyRealized), r
	})
}

// TestCounted: what members have counted for a policy of the hub is told to it, when it changes and
// with each new stream, and a member that is gone counts no more.
func TestCounted(t *testing.T) {
	s := newSet(t, "east", "west")
	p := fromWeb("p", "web")
	p.UID, p.Spec.Ingress[0].Name = "u", "r"
	s.must(s.hub.Create(t.Context(), p))
	counts := func(cluster string, packets int64) {
		t.Helper()
		s.until(fmt.Sprintf("%s has counted %d", cluster, packets), func() (bool, any) {
			c := s.tally.counted(cluster + "/e/" + string(p.UID))
			return c.Packets == packets && (packets == 0 || len(c.Rules) == 1 && c.Rules[0].Packets == packets), c
		})
	}
	s.sides["east"].packets.Store(7)
	s.sides["west"].packets.Store(5)
	counts("east", 7)
	counts("west", 5)
	s.sides["east"].packets.Store(9)
	counts("east", 9)
	s.kill()
	s.tally.DropElsewhere("east")
	s.run()
	counts("east", 9)
	s.must(s.hub.Delete(t.Context(), s.cluster("west")))
	counts("west", 0)
}
