package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/tier"
)

// hubs are several "nephele up" that are one hub.
type hubs struct {
	t   *testing.T
	all map[string]*cluster
	api []string
}

// start starts one more, which the one called by has added.
func (h *hubs) start(name, by string) *cluster {
	h.t.Helper()
	api, peer := freeAddress(h.t), freeAddress(h.t)
	args := []string{"--api-listen", api, "--peer-listen", peer}
	if by != "" {
		file := filepath.Join(h.t.TempDir(), "join.json")
		code, out, errOut := run(h.t, "hub", "add", name, "--peer", peer, "--out", file, "--data-dir", h.all[by].dir)
		if code != 0 {
			h.t.Fatal(out, errOut)
		}
		args = append(args, "--join", file)
	}
	h.all[name] = newCluster(h.t, args...)
	h.api = append(h.api, api)
	return h.all[name]
}

// list is what one of them says of all.
func (h *hubs) list(at string) (int, string) {
	h.t.Helper()
	code, out, errOut := run(h.t, "hub", "list", "--data-dir", h.all[at].dir)
	return code, out + errOut
}

// says waits until one of them says something of all.
func (h *hubs) says(at string, code int, text string) {
	h.t.Helper()
	eventuallyTold(h.t, at+" says: "+text, func(context.Context) (bool, string) {
		got, out := h.list(at)
		return got == code && strings.Contains(out, text), fmt.Sprint(got, out)
	})
}

// TestHubOfThree: three processes are one hub. The one that leads is killed: what is in force at a
// member of the set stays as it is, and a policy that is then written at another one comes there.
// In the long tier: one that is removed ends; without a majority nothing changes, and that is said.
func TestHubOfThree(t *testing.T) {
	t.Parallel()
	h := &hubs{t: t, all: map[string]*cluster{}}
	first := h.start("first", "")
	second := h.start("second", "first")
	third := h.start("third", "second")
	t.Cleanup(func() { // in order they would wait for one another
		for _, c := range h.all {
			c.kill()
		}
	})
	h.says("third", 0, "3 of 3 answer, and 2 are needed: 1 more may be missing.")
	file := filepath.Join(t.TempDir(), "join.json")
	if code, _, errOut := run(t, "hub", "add", "second", "--peer", "127.0.0.1:9", "--out", file, "--data-dir", first.dir); code != 2 || !strings.Contains(errOut, "there is a member second") {
		t.Errorf("a name twice: %d %s", code, errOut)
	}

	west := newCluster(t)
	code, out, errOut := run(t, "cluster", "token", "west", "--server", strings.Join(h.api, ","), "--pods", "10.2.0.0/16", "--kubeconfig", third.kubeconfig())
	if code != 0 {
		t.Fatal(out, errOut)
	}
	if code, out, errOut := run(t, "join", strings.Fields(out)[2], "--kubeconfig", west.kubeconfig()); code != 0 {
		t.Fatal(out, errOut)
	}
	must(t, west.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
	for name, ip := range map[string]string{"web": "10.2.0.8", "db": "10.2.0.7"} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": name}},
			Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
		must(t, west.client.Create(t.Context(), p))
		p.Status.PodIP, p.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
		must(t, west.client.Status().Update(t.Context(), p))
	}
	policy := func(name, to string) *v1beta1.ClusterNetworkPolicy {
		return &v1beta1.ClusterNetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"nephele.io/clusters": "{}"}},
			Spec: v1beta1.NetworkPolicySpec{
				Priority: 5, Tier: "platform", AppliedTo: []v1beta1.AppliedTo{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": to}}}},
				Ingress: []v1beta1.Rule{{Action: v1beta1.RuleActionAllow, From: []v1beta1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Scope: v1beta1.ScopeClusterSet}}}},
			},
		}
	}
	must(t, second.client.Create(t.Context(), policy("db-from-web", "db")))
	west.guards("db")
	west.admits("10.2.0.8")

	killed := time.Now()
	first.kill()
	h.says("second", 1, "2 of 3 answer, and 2 are needed: 0 more may be missing.")
	west.guards("db")
	west.admits("10.2.0.8")
	eventually(t, "another one takes a policy", func(ctx context.Context) (bool, string) {
		err := third.client.Create(ctx, policy("web-from-web", "web"))
		return err == nil, fmt.Sprint(err)
	})
	west.guards("db", "web")
	eventuallyTold(t, "status names the member that is away", func(context.Context) (bool, string) {
		code, out, errOut := run(t, "status", "--kubeconfig", third.kubeconfig())
		return code == 1 && strings.Contains(out, "2 of 3 answer, and 2 are needed; away: first"), out + errOut
	})
	t.Logf("a policy was in force at a member of the set %s after the one that led was killed", time.Since(killed).Round(100*time.Millisecond))
	west.admits("10.2.0.8")

	first.run()
	h.says("second", 0, "3 of 3 answer")
	if !tier.Long() {
		return
	}
	if code, out, errOut := run(t, "hub", "remove", "third", "--data-dir", second.dir); code != 0 {
		t.Fatal(out, errOut)
	}
	select {
	case <-third.process.exited:
	case <-time.After(time.Minute):
		t.Error("a member that was removed goes on")
	}
	if out := third.process.output.String(); !strings.Contains(out, "this member has been removed") {
		t.Error(out)
	}
	h.says("second", 0, "2 of 2 answer, and 2 are needed: 0 more may be missing.")
	first.kill()
	h.says("second", 1, "1 of 2 answer, and 2 are needed: nothing can be changed. What is in force stays so.")
	west.guards("db", "web")
	west.admits("10.2.0.8")
	first.run()
	h.says("first", 0, "2 of 2 answer")
	must(t, client.IgnoreNotFound(first.client.Delete(t.Context(), policy("web-from-web", "web"))))
	west.guards("db")
}
