package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/tier"
)

// TestAttackWithinLimits has a tenant and a host do all at once that costs the controller most, for
// as long as another tenant changes a policy some times. The controller runs as its Deployment says
// and within the Deployment's limit of memory: it is not killed, stays below the limit, and the
// policy is realized within twice the time that it takes at rest.
func TestAttackWithinLimits(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestStrangersCannotUseUpMemory, TestBodiesOfOneCaller and TestReviewsAreBounded (internal/apiserver); TestAttack asks for as much")
	x := newExisting(t, manifests)
	mallory, host := x.attacker(), x.attackingHost()
	limit := x.memoryLimit()

	// The webhooks, which kube-apiserver does not reach here. All of it is sent by a stranger.
	p := x.start()
	x.ready(p)
	m := memory{t, p.cmd.Process.Pid}
	p.within(limit)
	review, dense := largeReview(3_000_000), denseReview(3_000_000)
	var senders sync.WaitGroup
	for n := range 40 {
		senders.Go(func() {
			for _, body := range [][]byte{review, dense} {
				path := []string{"/validate/annp", "/mutate/annp", "/validate/acnp", "/validate/group"}[n%4]
				_, _, _ = p.send(t.Context(), http.MethodPost, path, "", "application/json", body)
			}
		})
	}
	senders.Wait()
	x.ready(p)
	t.Logf("webhooks: at most %d MB", m.read("VmHWM")>>20)
	if peak := m.read("VmHWM"); peak > limit {
		t.Errorf("THE CONTROLLER GREW TO %d MB WITH A LIMIT OF %d MB", peak>>20, limit>>20)
	}
	p.end()

	state, _, err := estate.HybridCloud()
	x.must(err)
	server, err := sim.Start(context.WithoutCancel(t.Context()), sim.Options{State: state})
	x.must(err)
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	p = x.start("--without-webhooks")
	x.ready(p)
	p.within(limit)
	m = memory{t, p.cmd.Process.Pid}
	raw, err := os.ReadFile(manifests + "/samples/quickstart.yaml")
	x.must(err)
	for _, doc := range strings.Split(strings.Replace(string(raw), "http://127.0.0.1:8555", server.URL(), 1), "\n---\n") {
		x.must(x.admin.Create(t.Context(), fromText(t, doc)))
	}
	x.changed() // the first time the VMs are taken over
	rest := x.median(5)
	for _, o := range heavyPolicies() {
		x.must(x.admin.Create(t.Context(), fromText(t, o)))
	}
	ctx, stop := context.WithCancel(t.Context())
	var attackers sync.WaitGroup
	defer attackers.Wait()
	defer stop()
	var done, refused atomic.Int64
	var missed sync.Map
	for worker := range 6 {
		attackers.Go(func() {
			all := p.attacks(mallory, host)
			for n := worker; ctx.Err() == nil; n++ {
				code, answer, _ := all[n%len(all)](ctx)
				if done.Add(1); code >= 400 {
					refused.Add(1)
				}
				switch code {
				case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType:
					missed.Store(n%len(all), answer)
				}
			}
		})
	}
	attacked := x.median(9)
	stop()
	attackers.Wait()
	peak := m.read("VmHWM")
	t.Logf("at rest %s, attacked %s; %d attempts, %d of them refused; at most %d MB", rest, attacked, done.Load(), refused.Load(), peak>>20)
	missed.Range(func(n, answer any) bool {
		t.Errorf("attempt %d attacks nothing: %s", n, tail(answer.(string), 300))
		return true
	})
	// At rest it takes the seconds that the controller waits for the cloud.
	if attacked > 2*rest {
		t.Errorf("THE POLICY OF ANOTHER TENANT TAKES %s, AND %s AT REST", attacked, rest)
	}
	if peak > limit {
		t.Errorf("THE CONTROLLER GREW TO %d MB WITH A LIMIT OF %d MB", peak>>20, limit>>20)
	}
	select {
	case <-p.exited:
		t.Error("THE CONTROLLER ENDED")
	default:
	}
}

// attacker makes a tenant with every role of a tenant in a Namespace, and returns his token.
func (x *existing) attacker() string {
	x.must(x.admin.Create(x.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: attackerNS}}))
	x.must(x.admin.Create(x.t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: attackerNS, Name: mallory}}))
	subject := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: attackerNS, Name: mallory}}
	for _, role := range []string{"nephele-edit", "nephele-policy-author"} {
		x.must(x.admin.Create(x.t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: attackerNS, Name: role},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: subject}))
	}
	for _, role := range []string{"nephele-reviewer", "nephele-planner"} {
		x.must(x.admin.Create(x.t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: subject}))
	}
	return x.token(attackerNS, mallory)
}

// attackingHost makes an agent, and returns its token.
func (x *existing) attackingHost() string {
	x.must(x.admin.Create(x.t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: attackerNS, Name: "vm-1"}}))
	subject := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: attackerNS, Name: "vm-1"}}
	x.must(x.admin.Create(x.t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "vm-1"},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nephele-agent"}, Subjects: subject}))
	x.must(x.admin.Create(x.t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: attackerNS, Name: "vm-1"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"controlplane.antrea.io"}, Resources: []string{"enforcers"}, ResourceNames: []string{"vm-1"}, Verbs: []string{"enforce"}}}}))
	x.must(x.admin.Create(x.t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: attackerNS, Name: "vm-1"},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "vm-1"}, Subjects: subject}))
	return x.token(attackerNS, "vm-1")
}

// memoryLimit is that of the Deployment in bytes.
func (x *existing) memoryLimit() int64 {
	var d appsv1.Deployment
	for _, o := range x.objects {
		if o.GetKind() == "Deployment" {
			x.must(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d))
		}
	}
	limit := d.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().Value()
	if limit != 1<<30 {
		x.t.Errorf("the Deployment's limit is %d bytes, and the page on security says 1 GiB", limit)
	}
	return limit
}

// within has the kernel end the process when it takes more memory, where the machine lets us.
func (p *pod) within(limit int64) {
	p.t.Helper()
	pid := strconv.Itoa(p.cmd.Process.Pid)
	for _, kind := range []struct{ dir, most, tasks string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "cgroup.procs"}, {"/sys/fs/cgroup", "memory.max", "cgroup.procs"},
	} {
		group := filepath.Join(kind.dir, "nephele-test-"+pid)
		if os.Mkdir(group, 0o755) != nil {
			continue
		}
		p.t.Cleanup(func() { _ = os.Remove(group) }) // the process has ended by then
		if os.WriteFile(filepath.Join(group, kind.most), []byte(strconv.FormatInt(limit, 10)), 0o600) == nil &&
			os.WriteFile(filepath.Join(group, kind.tasks), []byte(pid), 0o600) == nil {
			return
		}
	}
	p.t.Logf("not proven: the kernel ends nothing here, for control groups cannot be made; how large the process becomes is measured all the same")
}

// changed changes the policy of the other tenant and returns how long it takes until that is
// realized.
func (x *existing) changed() time.Duration {
	x.t.Helper()
	p := &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "quickstart", Name: "switches"}}
	x.must(x.admin.Get(x.t.Context(), client.ObjectKeyFromObject(p), p))
	begin := time.Now()
	edit(x.t, x.admin, p, func() { p.Spec.Ingress[0].Ports[0].Port.IntVal++ })
	generation := p.Generation
	eventually(x.t, "the policy is realized", func(ctx context.Context) (bool, string) {
		err := x.admin.Get(ctx, client.ObjectKeyFromObject(p), p)
		var vms cloudv1.VirtualMachineList
		return err == nil && p.Status.ObservedGeneration >= generation && p.Status.Phase == v1beta1.NetworkPolicyRealized, fmt.Sprint(p.Status, err, len(vms.Items))
	})
	return time.Since(begin)
}

func (x *existing) median(n int) time.Duration {
	var all []time.Duration
	for range n {
		all = append(all, x.changed())
	}
	slices.Sort(all)
	return all[n/2].Round(time.Millisecond)
}

// heavyPolicies are policies of the attacker that cost much to look at: many rules about many
// selectors.
func heavyPolicies() (out []string) {
	for n := range 2 {
		var rules []string
		for i := range 500 {
			rules = append(rules, fmt.Sprintf("{action: Allow, from: [{namespaceSelector: {matchLabels: {a: v%d}}}, {podSelector: {matchLabels: {b: v%d}}}, {ipBlock: {cidr: 10.%d.%d.0/24}}], ports: [{protocol: TCP, port: %d}]}",
				i, i, n, i%250, 1000+i))
		}
		out = append(out, fmt.Sprintf("{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {namespace: %s, name: heavy-%d}, spec: {priority: %d, appliedTo: [{podSelector: {}}, {externalEntitySelector: {}}], ingress: [%s]}}",
			attackerNS, n, n+5, strings.Join(rules, ", ")))
	}
	return out
}

// denseReview is an AdmissionReview of many small parts.
func denseReview(size int) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":{"group":"crd.antrea.io","version":"v1beta1","kind":"NetworkPolicy"},`+
		`"resource":{"group":"crd.antrea.io","version":"v1beta1","resource":"networkpolicies"},"operation":"CREATE","name":"p","namespace":"default","object":{"apiVersion":"crd.antrea.io/v1beta1",`+
		`"kind":"NetworkPolicy","metadata":{"namespace":"default","name":"p"},"spec":{"priority":1,"appliedTo":[{"podSelector":{}}],"ingress":[%s]}}}}`, strings.TrimSuffix(strings.Repeat("{},", size/3), ","))
}

// denseProtobuf is a message of an API group whose field has many elements of two bytes, within
// fields that lead to it.
func denseProtobuf(gv, kind string, size int, fields ...int) []byte {
	last := len(fields) - 1
	message := bytes.Repeat([]byte{byte(fields[last]<<3 | 2), 0}, size/2)
	for _, n := range slices.Backward(fields[:last]) {
		message = append(protowire.AppendVarint([]byte{byte(n<<3 | 2)}, uint64(len(message))), message...)
	}
	raw, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: gv, Kind: kind}, Raw: message}).Marshal()
	if err != nil {
		panic(err)
	}
	return append([]byte("k8s\x00"), raw...)
}

// send sends a body as it is.
func (p *pod) send(ctx context.Context, method, path, token, media string, body []byte) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, method, "https://"+p.api+path, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", media)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := anyone().Do(r)
	if err != nil {
		return 0, "", err // cut off, which is as good
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 4<<20))
	return answer.StatusCode, string(text), err
}

// attacks are requests that cost much, of a tenant and of a host.
func (p *pod) attacks(tenant, host string) (out []func(context.Context) (int, string, error)) {
	const analysis, computed, stats = "/apis/analysis.nephele.io/v1alpha1/", computedPath, "/apis/stats.antrea.io/v1alpha1/"
	add := func(token, path, media string, body []byte) {
		out = append(out, func(ctx context.Context) (int, string, error) {
			return p.send(ctx, http.MethodPost, path, token, media, body)
		})
	}
	review := func(resource, kind, spec string) {
		add(tenant, analysis+resource, "application/json", fmt.Appendf(nil, `{"apiVersion":"analysis.nephele.io/v1alpha1","kind":%q,"spec":%s}`, kind, spec))
	}
	const size = 600_000
	manifests := strings.Join(heavyPolicies(), "\n---\n")
	review("reachreviews", "ReachReview", `{"to":"any","refused":true,"limit":5000}`)
	review("reachreviews", "ReachReview", `{"to":"any","grouped":true}`)
	review("reachreviews", "ReachReview", `{"to":"any","groupBy":"machine","rows":200,"columns":200}`)
	review("reachreviews", "ReachReview", `{"from":"0.0.0.0/0","to":"`+attackerNS+`/*","limit":5000}`)
	var absent []string
	for i := range size / 10 {
		absent = append(absent, fmt.Sprint("!k", i))
	}
	review("reachreviews", "ReachReview", `{"from":"`+attackerNS+`/`+strings.Join(absent, ",")+`","to":"any"}`)
	review("effectiverules", "EffectiveRules", `{"of":"*/`+strings.Join(absent, ",")+`"}`)
	review("effectiverules", "EffectiveRules", `{}`)
	review("effectiverules", "EffectiveRules", `{"unused":true}`)
	review("flowreviews", "FlowReview", `{"from":"10.0.0.1","to":"10.0.0.2","protocol":"TCP","port":"1-65535"}`)
	review("flowqueries", "FlowQuery", `{"limit":5000,"from":"`+strings.Repeat("a", 200)+`"}`)
	review("planreviews", "PlanReview", fmt.Sprintf(`{"map":true,"manifests":%q}`, manifests[:min(len(manifests), size)]))
	review("planreviews", "PlanReview", `{"manifests":"`+strings.Repeat("- {}\\n", size/6)+`"}`)
	review("planreviews", "PlanReview", `{"manifests":"`+strings.Repeat("[", size/2)+`"}`)
	review("planreviews", "PlanReview", `{"manifests":"a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d]\n"}`)
	review("planreviews", "PlanReview", `{"delete":[`+strings.TrimSuffix(strings.Repeat(`{},`, size/3), ",")+`]}`)
	add(tenant, analysis+"planreviews", "application/vnd.kubernetes.protobuf", denseProtobuf("analysis.nephele.io/v1alpha1", "PlanReview", size, 2, 2))
	add(host, computed+"nodestatssummaries", "application/vnd.kubernetes.protobuf", denseProtobuf("controlplane.antrea.io/v1beta2", "NodeStatsSummary", 2_800_000, 2))
	add(host, computed+"nodestatssummaries", "application/vnd.kubernetes.protobuf", denseProtobuf("controlplane.antrea.io/v1beta2", "NodeStatsSummary", 250_000, 2))
	add(host, computed+"nodestatssummaries", "application/json", fmt.Appendf(nil, `{"apiVersion":"controlplane.antrea.io/v1beta2","kind":"NodeStatsSummary","metadata":{"name":"vm-1"},"networkPolicies":[%s]}`,
		strings.TrimSuffix(strings.Repeat("{},", 80_000), ",")))
	add(host, computed+"networkpolicies/x/status", "application/json", fmt.Appendf(nil, `{"apiVersion":"controlplane.antrea.io/v1beta2","kind":"NetworkPolicyStatus","metadata":{"name":"x"},"nodes":[{"nodeName":"vm-1","message":%q}]}`,
		base64.StdEncoding.EncodeToString(make([]byte, 2<<20))))
	add(host, analysis+"trafficreports", "application/json", fmt.Appendf(nil, `{"apiVersion":"analysis.nephele.io/v1alpha1","kind":"TrafficReport","metadata":{"name":"`+attackerNS+`/vm-1"},"spec":{"traffic":[%s]}}`,
		strings.TrimSuffix(strings.Repeat("{},", 80_000), ",")))
	add(host, stats+"nodelatencystats", "application/json", fmt.Appendf(nil, `{"apiVersion":"stats.antrea.io/v1alpha1","kind":"NodeLatencyStats","metadata":{"name":"vm-1"},"peerNodeLatencyStats":[%s]}`,
		strings.TrimSuffix(strings.Repeat("{},", 80_000), ",")))
	out = append(out, func(ctx context.Context) (int, string, error) { // watches that nobody reads
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		var watches sync.WaitGroup
		for range 20 {
			watches.Go(func() {
				_, _, _ = p.send(short, http.MethodGet, computed+"addressgroups?watch=true&fieldSelector=nodeName%3Dvm-1", host, "", nil)
			})
		}
		watches.Wait()
		return 0, "", nil
	})
	return out
}
