package e2e

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/platform/sharing"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/estatetest"
)

const (
	sharedOverlay = manifests + "/overlays/shared-accounts"
	// shareLease is after how long a replica that is not heard of loses its accounts. How many of
	// these pass until everything is served again is logged; the tests of sharing bound it by their
	// own clock.
	shareLease = 8 * time.Second
	farms      = 10
)

// farmAccount is the number of the i-th cloud account.
func farmAccount(i int) string { return fmt.Sprintf("1111222233%02d", i) }

// farmState has n cloud accounts of one VPC with two VMs.
func farmState(t *testing.T, n int) aws.State {
	t.Helper()
	var b strings.Builder
	b.WriteString("accounts:\n")
	for i := range n {
		fmt.Fprintf(&b, "- id: %q\n  regions:\n  - name: eu-west-1\n    vpcs:\n    - name: farm\n      id: vpc-%08d\n      cidrs: [10.%d.0.0/16]\n", farmAccount(i), i+1, i)
		b.WriteString("      groups:\n      - {name: base, rules: [\"tcp 22 from 10.0.0.0/8\"]}\n      vms:\n")
		for vm := range 2 {
			fmt.Fprintf(&b, "      - {name: vm-%d-%d, ip: 10.%d.0.%d, groups: [base], tags: {role: farm}}\n", i, vm, i, vm+10)
		}
	}
	state := estatetest.Parse(t, b.String())
	state.Credentials = nil
	for i := range n {
		state.Credentials = append(state.Credentials, aws.Credential{AccessKeyID: fmt.Sprintf("AKIAFARM%012d", i), Secret: "secret", Account: farmAccount(i)})
	}
	return state
}

// ledger is what the simulator saw: which replica changed something where, and when that was over.
type ledger struct {
	mu      sync.Mutex
	entries []entry
}

// entry is a call that changes something.
type entry struct {
	account, replica, action string
	at                       time.Time
}

var agentEpoch = regexp.MustCompile(`nephele/([a-z0-9]+)`)

func (l *ledger) onCall(_ context.Context, c ec2.Call) error {
	if strings.HasPrefix(c.Action, "Describe") || strings.HasPrefix(c.Action, "Get") {
		return nil
	}
	epoch := ""
	if m := agentEpoch.FindStringSubmatch(c.Agent); m != nil {
		epoch = m[1]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, entry{c.Account, epoch, c.Action, time.Now()})
	return nil
}

// last returns the replica that changed something last in each account, since a moment.
func (l *ledger) last(since time.Time) map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]string{}
	for _, e := range l.entries {
		if e.at.After(since) {
			out[e.account] = e.replica
		}
	}
	return out
}

// turns checks that in no account writers took turns more often than the replicas changed.
func (l *ledger) turns(t *testing.T, changes int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	runs := map[string][]string{}
	for _, e := range l.entries {
		if e.replica == "" {
			t.Fatalf("a call of nobody: %+v", e)
		}
		if r := runs[e.account]; len(r) == 0 || r[len(r)-1] != e.replica {
			runs[e.account] = append(r, e.replica)
		}
	}
	for account, r := range runs {
		if len(r) > changes+1 {
			t.Errorf("account %s was written by %v, one after the other: %d replicas came or went", account, r, changes)
		}
	}
	t.Logf("%d changing calls; writers by account: %v", len(l.entries), runs)
}

// silent checks that a replica has changed nothing since a moment.
func (l *ledger) silent(t *testing.T, epoch string, since time.Time) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.replica == epoch && e.at.After(since) {
			t.Errorf("%s of %s to %s, %s after it had lost everything", e.action, epoch, e.account, e.at.Sub(since))
		}
	}
}

// wire leads to the API server until it is cut.
type wire struct {
	listener net.Listener
	to       string
	mu       sync.Mutex
	cut      bool
	conns    map[net.Conn]bool
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: l, to: to, conns: map[net.Conn]bool{}}
	go w.serve()
	t.Cleanup(func() {
		w.set(true)
		_ = l.Close()
	})
	return w
}

func (w *wire) serve() {
	for {
		from, err := w.listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer from.Close()
			w.mu.Lock()
			cut := w.cut
			w.mu.Unlock()
			if cut { // the API server does not receive these attempts
				return
			}
			to, err := net.Dial("tcp", w.to)
			if err != nil {
				return
			}
			defer to.Close()
			w.mu.Lock()
			if w.cut {
				w.mu.Unlock()
				return
			}
			w.conns[from], w.conns[to] = true, true
			w.mu.Unlock()
			go func() {
				defer from.Close()
				_, _ = to.(*net.TCPConn).ReadFrom(from)
				_ = to.Close()
			}()
			_, _ = from.(*net.TCPConn).ReadFrom(to)
			w.mu.Lock()
			delete(w.conns, from)
			delete(w.conns, to)
			w.mu.Unlock()
		}()
	}
}

// set cuts the wire, or mends it.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut = cut; cut {
		for c := range w.conns {
			_ = c.Close()
		}
		w.conns = map[net.Conn]bool{}
	}
}

// replica is one of several controllers.
type replica struct {
	*pod
	name  string
	wire  *wire
	epoch string
}

// replicas are several controllers of one cluster.
type replicas struct {
	*existing
	server *sim.Server
	ledger *ledger
	all    []*replica
	born   int
}

func newReplicas(t *testing.T) *replicas {
	t.Helper()
	rs := &replicas{existing: newExisting(t, sharedOverlay, "cloud", vmNamespace), ledger: &ledger{}}
	server, err := sim.Start(context.WithoutCancel(t.Context()), sim.Options{State: farmState(t, farms), OnCall: rs.ledger.onCall})
	rs.must(err)
	rs.server = server
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range farms {
		rs.must(rs.admin.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: fmt.Sprint("keys-", i)}, StringData: map[string]string{
			"k": fmt.Sprintf(`{"accessKeyId": "AKIAFARM%012d", "accessKeySecret": "secret"}`, i)}}))
		a := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: fmt.Sprint("farm-", i)}}
		all := int32(100)
		a.Spec.Brake = &cloudv1.Brake{Percent: &all}
		a.Spec.AWSConfig = &cloudv1.CloudProviderAccountAWSConfig{Region: []string{"eu-west-1"}, Endpoint: server.URL(),
			SecretRef: &cloudv1.SecretReference{Namespace: "cloud", Name: fmt.Sprint("keys-", i), Key: "k"}}
		s := &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: vmNamespace, Name: fmt.Sprint("farm-", i)}}
		s.Spec.AccountNamespace, s.Spec.AccountName = "cloud", a.Name
		s.Spec.VMSelector = []cloudv1.VirtualMachineSelector{{VpcMatch: &cloudv1.EntityMatch{MatchID: fmt.Sprintf("vpc-%08d", i+1)}}}
		rs.must(rs.admin.Create(t.Context(), a))
		rs.must(rs.admin.Create(t.Context(), s))
	}
	return rs
}

// add starts another replica, in a Pod of its own, and waits until it has a seat.
func (rs *replicas) add() *replica {
	rs.t.Helper()
	rs.born++
	r := &replica{name: fmt.Sprint("nephele-", rs.born)}
	no := false
	rs.must(rs.admin.Create(rs.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: r.name,
			Labels: map[string]string{"app.kubernetes.io/name": "nephele", "app.kubernetes.io/component": "controller"}},
		Spec: corev1.PodSpec{AutomountServiceAccountToken: &no, Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}))
	u, err := url.Parse(rs.recorder.server.URL)
	rs.must(err)
	r.wire = newWire(rs.t, u.Host)
	rs.existing.pod, rs.kubeconfig = r.name, rs.loginAt(clientcmdapi.Cluster{Server: "https://" + r.wire.listener.Addr().String(), CertificateAuthorityData: rs.recorder.ca()},
		"kube-system", "nephele-controller")
	r.pod = rs.start("--without-webhooks", "--share-lease="+shareLease.String())
	seat := regexp.MustCompile(`(?m)This replica shares the work.*epoch[=":\s]+([a-z0-9]+)`)
	eventually(rs.t, "a seat for "+r.name, func(context.Context) (bool, string) {
		m := seat.FindStringSubmatch(r.output.String())
		if m == nil {
			return false, tail(r.output.String(), 2000)
		}
		r.epoch = m[1]
		return true, ""
	})
	rs.all = append(rs.all, r)
	return r
}

// kill ends a replica as a power cut would.
func (r *replica) kill() {
	_ = r.cmd.Process.Kill()
	<-r.exited
}

// load changes something in every account all the time, until the test ends.
func (rs *replicas) load() {
	port := func(n int) *intstr.IntOrString {
		p := intstr.FromInt32(int32(8000 + n%100)) //nolint:gosec // a small number
		return &p
	}
	p := &v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "farm"}}
	p.Spec.Priority, p.Spec.Tier = 5, "application"
	p.Spec.AppliedTo = []v1beta1.AppliedTo{{ExternalEntitySelector: &metav1.LabelSelector{}}}
	tcp := v1beta1.Protocol("TCP")
	p.Spec.Ingress = []v1beta1.Rule{{Action: v1beta1.RuleActionAllow, From: []v1beta1.NetworkPolicyPeer{{IPBlock: &v1beta1.IPBlock{CIDR: "10.0.0.0/8"}}},
		Ports: []v1beta1.NetworkPolicyPort{{Protocol: &tcp, Port: port(0)}}}}
	eventually(rs.t, "the policy", func(ctx context.Context) (bool, string) {
		err := rs.admin.Create(ctx, p)
		return err == nil || apierrors.IsAlreadyExists(err), fmt.Sprint(err)
	})
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			var now v1beta1.ClusterNetworkPolicy
			if rs.admin.Get(ctx, client.ObjectKey{Name: "farm"}, &now) == nil {
				now.Spec.Ingress[0].Ports[0].Port = port(n)
				_ = rs.admin.Update(ctx, &now) // the next one is as good
			}
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Second):
			}
		}
	})
	rs.t.Cleanup(func() { cancel(); done.Wait() })
}

// served waits until somebody but one replica has changed something in every account since a
// moment, and returns the replica that does so by account.
func (rs *replicas) served(what string, since time.Time, but *replica) map[string]string {
	rs.t.Helper()
	var last map[string]string
	eventually(rs.t, what, func(context.Context) (bool, string) {
		last = rs.ledger.last(since)
		waiting := 0
		for i := range farms {
			if by := last[farmAccount(i)]; by == "" || but != nil && by == but.epoch {
				waiting++
			}
		}
		return waiting == 0, fmt.Sprintf("%d of %d accounts are waiting", waiting, farms)
	})
	rs.t.Logf("%s: all accounts are served after %.1f s, which is %.1f leases", what, time.Since(since).Seconds(), time.Since(since).Seconds()/shareLease.Seconds())
	return last
}

// settled waits until living replicas hold all shards, and every living one holds some.
func (rs *replicas) settled(living ...*replica) sharing.Table {
	rs.t.Helper()
	store := &sharing.Kube{Client: rs.kube, Namespace: "kube-system", Group: "nephele-replica", ConfigMap: "nephele-shards"}
	var t sharing.Table
	eventually(rs.t, "all shards are held", func(ctx context.Context) (bool, string) {
		var err error
		if t, err = store.Table(ctx); err != nil {
			return false, err.Error()
		}
		held := map[string]int{}
		for _, s := range t.Shards {
			held[s.Holder]++
		}
		for _, r := range living {
			if held[r.epoch] == 0 {
				return false, fmt.Sprintf("%v, none is held by %s", held, r.epoch)
			}
		}
		return len(held) == len(living), fmt.Sprint(held)
	})
	return t
}

// leader waits until one Pod has the label by which the Service finds it, and returns its replica.
func (rs *replicas) leader() *replica {
	rs.t.Helper()
	var found *replica
	eventually(rs.t, "one Pod is labelled as the leader's", func(ctx context.Context) (bool, string) {
		pods, err := rs.kube.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{LabelSelector: "nephele.io/leader=true"})
		if err != nil || len(pods.Items) != 1 {
			return false, fmt.Sprint(err, len(pods.Items))
		}
		i := slices.IndexFunc(rs.all, func(r *replica) bool { return r.name == pods.Items[0].Name })
		if i < 0 {
			return false, pods.Items[0].Name
		}
		found = rs.all[i]
		select {
		case <-found.exited:
			return false, found.name + " is dead"
		default:
			return true, ""
		}
	})
	return found
}

// TestReplicasShareAccounts: replicas with the rights of the manifests share ten accounts in which
// something changes all the time. They are killed, stopped and woken, and cut off from the API
// server; one comes, the table is damaged, one ends in order. The author of each change is known by
// the simulator: no account is written by a replica that has lost it, all are served again within
// some leases, and few move.
func TestReplicasShareAccounts(t *testing.T) {
	t.Parallel()
	rs := newReplicas(t)
	a, b, c := rs.add(), rs.add(), rs.add()
	rs.settled(a, b, c)
	rs.load()
	start := time.Now()
	rs.served("at first", start, nil)
	if by := slices.Compact(slices.Sorted(maps.Values(rs.ledger.last(start)))); len(by) < 2 {
		t.Errorf("%v do all the work", by)
	}
	changes := 3

	// The leader is killed: it computed the policies for all, too.
	first := rs.leader()
	living := slices.DeleteFunc([]*replica{a, b, c}, func(r *replica) bool { return r == first })
	killed := time.Now()
	first.kill()
	rs.served("after kill -9 of the leader", killed, first)
	rs.settled(living...)
	changes++

	// Another one is stopped, its accounts go, and it is woken: whatever it had in hand, it sends
	// nothing.
	leads := rs.leader()
	other := living[0]
	if other == leads {
		other = living[1]
	}
	before := rs.settled(living...)
	rs.must(other.cmd.Process.Signal(syscall.SIGSTOP))
	stopped := time.Now()
	rs.served("after SIGSTOP of "+other.name, stopped.Add(time.Second), other)
	lost := rs.settled(leads)
	rs.ledger.silent(t, other.epoch, stopped.Add(time.Second))
	woken := time.Now()
	rs.must(other.cmd.Process.Signal(syscall.SIGCONT))
	back := rs.settled(living...)
	changes += 2
	for i := range back.Shards {
		if back.Shards[i].Holder == other.epoch && back.Shards[i].Term <= before.Shards[i].Term {
			t.Errorf("shard %d was held on: %+v, %+v, %+v", i, before.Shards[i], lost.Shards[i], back.Shards[i])
		}
	}
	rs.served("after it was woken", woken, nil)

	// The same one is cut off from the API server, but not from the clouds.
	other.wire.set(true)
	cut := time.Now()
	rs.served("after the partition of "+other.name, cut.Add(shareLease), other)
	rs.ledger.silent(t, other.epoch, cut.Add(shareLease))
	other.wire.set(false)
	rs.settled(living...)
	changes += 2

	// One comes: what moves, moves to it.
	before = rs.settled(living...)
	d := rs.add()
	after := rs.settled(append(slices.Clone(living), d)...)
	moved := 0
	for i := range after.Shards {
		if after.Shards[i].Holder != before.Shards[i].Holder {
			if moved++; after.Shards[i].Holder != d.epoch {
				t.Errorf("shard %d moved from %s to %s when %s came", i, before.Shards[i].Holder, after.Shards[i].Holder, d.epoch)
			}
		}
	}
	if moved == 0 || moved > len(after.Shards)*2/3 {
		t.Errorf("%d of %d shards moved to the third replica", moved, len(after.Shards))
	}
	rs.served("after one came", time.Now(), nil)
	changes++

	// Somebody calls all shards free. Nobody believes it, and it is made anew when all must have
	// noticed.
	eventually(t, "the table is edited", func(ctx context.Context) (bool, string) {
		cm, err := rs.kube.CoreV1().ConfigMaps("kube-system").Get(ctx, "nephele-shards", metav1.GetOptions{})
		if err == nil {
			cm.Data["shards"] = strings.Repeat("- 1 - false\n", len(after.Shards))
			_, err = rs.kube.CoreV1().ConfigMaps("kube-system").Update(ctx, cm, metav1.UpdateOptions{})
		}
		return err == nil, fmt.Sprint(err)
	})
	edited := time.Now()
	rs.settled(append(slices.Clone(living), d)...)
	rs.served("after the table was edited", edited.Add(shareLease/2), nil)

	// The leader ends in order.
	ending := time.Now()
	leads.end()
	rs.served("after an orderly end of the leader", ending, leads)
	rs.leader()
	changes++
	rs.ledger.turns(t, changes)
	rs.onlyLabels()
}

// onlyLabels checks that the right to label Pods covers the controller's Pods alone.
func (rs *replicas) onlyLabels() {
	rs.t.Helper()
	no := false
	victim := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "dns", Labels: map[string]string{"app": "dns"}},
		Spec: corev1.PodSpec{AutomountServiceAccountToken: &no, Containers: []corev1.Container{{Name: "c", Image: "dns"}}}}
	rs.must(rs.admin.Create(rs.t.Context(), victim))
	cfg, err := clientcmd.BuildConfigFromFlags("", rs.login("kube-system", "nephele-controller"))
	rs.must(err)
	controller := newClient(rs.t, cfg)
	for _, try := range []struct{ pod, patch string }{
		{"dns", `{"metadata":{"labels":{"nephele.io/leader":"true"}}}`},
		{"dns", `{"spec":{"containers":[{"name":"c","image":"evil"}]}}`},
		{"dns", `{"metadata":{"labels":{"app.kubernetes.io/name":"nephele","app.kubernetes.io/component":"controller"}}}`},
		{"nephele-1", `{"spec":{"containers":[{"name":"c","image":"evil"}]}}`},
		{"nephele-1", `{"metadata":{"labels":{"app":"dns"}}}`},
		{"nephele-1", `{"metadata":{"annotations":{"a":"b"}}}`},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: try.pod}}
		if err := controller.Patch(rs.t.Context(), p, client.RawPatch("application/strategic-merge-patch+json", []byte(try.patch))); !apierrors.IsForbidden(err) {
			rs.t.Errorf("%s %s: %v", try.pod, try.patch, err)
		}
	}
}
